// SPDX-License-Identifier: MIT
// features.h - that of glibc, which is not here: it defines nothing.
