// SPDX-License-Identifier: MIT
// empty.c - the smallest program: what preloading the library costs everybody.
int main(void) { return 0; }
