// SPDX-License-Identifier: MIT
// ansi.h - nothing: headers of the compiler look for this on NetBSD, which is not here.
