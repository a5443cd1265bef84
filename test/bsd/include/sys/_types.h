// SPDX-License-Identifier: MIT
// _types.h - nothing: headers of the compiler look for this on FreeBSD, which is not here.
