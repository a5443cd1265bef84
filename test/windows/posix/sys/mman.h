// SPDX-License-Identifier: MIT
// sys/mman.h - memory as POSIX has it, over VirtualAlloc, and over
// sections where it is shared through a file. See unistd.h.
#ifndef TEST_WINDOWS_MMAN_H
#define TEST_WINDOWS_MMAN_H

#include <stddef.h>
#include <sys/types.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 1 // needs a file, and the whole of it is mapped
#define MAP_PRIVATE 2 // needs MAP_ANONYMOUS
#define MAP_ANONYMOUS 32
#define MAP_NORESERVE 0
#define MAP_FAILED ((void*)-1)
#define MADV_DONTNEED 4
#define MFD_CLOEXEC 1

void* mmap(void* start, size_t size, int protection, int flags, int file, off_t offset);
// An empty file that goes when it is closed.
int memfd_create(const char* name, unsigned flags);
int munmap(void* start, size_t size);
int mprotect(void* start, size_t size, int protection);
int madvise(void* start, size_t size, int advice);
// Which OS pages are resident: a byte for each, 1 or 0.
int mincore(void* start, size_t size, unsigned char* resident);

#endif
