// SPDX-License-Identifier: MIT
// gperftools.h - the interface of gperftools 2, as a library of ours has it that is used in the
// place of its libtcmalloc_minimal.
//
// What programs call is declared here as its headers do (malloc_extension_c.h, tcmalloc.h,
// nallocx.h), because a build of ours has none of them:
//
//   gperftools.c        MallocExtension_*: properties, statistics, memory that goes back
//   gperftools_tc.c     tc_malloc and its relatives
//   gperftools_info.c   those of them that tell what mallinfo does, where libc has that
//   gperftools_class.c  the class MallocExtension of C++
#ifndef MI_COMPAT_GPERFTOOLS_H
#define MI_COMPAT_GPERFTOOLS_H

#include "compat.h"

#define MI_GPERFTOOLS_HISTOGRAM 64

// Calls `other(size, alignment)`; NULL if that throws. Of override_new.c, which is in the same
// library: the one function here that no public header has, because C cannot catch.
void* mi_cxx_catching(size_t size, size_t alignment, uintptr_t other)
    __attribute__((visibility("hidden")));

MI_COMPAT_EXPORT int MallocExtension_VerifyAllMemory(void);
MI_COMPAT_EXPORT int MallocExtension_VerifyNewMemory(const void* p);
MI_COMPAT_EXPORT int MallocExtension_VerifyArrayNewMemory(const void* p);
MI_COMPAT_EXPORT int MallocExtension_VerifyMallocMemory(const void* p);
MI_COMPAT_EXPORT int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                                       int histogram[MI_GPERFTOOLS_HISTOGRAM]);
MI_COMPAT_EXPORT void MallocExtension_GetStats(char* buffer, int buffer_length);
MI_COMPAT_EXPORT int MallocExtension_GetNumericProperty(const char* property, size_t* value);
MI_COMPAT_EXPORT int MallocExtension_SetNumericProperty(const char* property, size_t value);
MI_COMPAT_EXPORT void MallocExtension_MarkThreadIdle(void);
MI_COMPAT_EXPORT void MallocExtension_MarkThreadBusy(void);
MI_COMPAT_EXPORT void MallocExtension_MarkThreadTemporarilyIdle(void);
MI_COMPAT_EXPORT void MallocExtension_ReleaseToSystem(size_t num_bytes);
MI_COMPAT_EXPORT void MallocExtension_ReleaseFreeMemory(void);
// Not in the header of gperftools for C, but in that of its newer relative, TCMalloc.
MI_COMPAT_EXPORT void MallocExtension_SetMemoryReleaseRate(double rate);
MI_COMPAT_EXPORT double MallocExtension_GetMemoryReleaseRate(void);
MI_COMPAT_EXPORT size_t MallocExtension_GetEstimatedAllocatedSize(size_t size);
MI_COMPAT_EXPORT size_t MallocExtension_GetAllocatedSize(const void* p);
MI_COMPAT_EXPORT size_t MallocExtension_GetThreadCacheSize(void);

typedef enum mi_gperftools_owner_e {
  MI_GPERFTOOLS_UNKNOWN,
  MI_GPERFTOOLS_OWNED,
  MI_GPERFTOOLS_NOT_OWNED
} mi_gperftools_owner_t;

MI_COMPAT_EXPORT mi_gperftools_owner_t MallocExtension_GetOwnership(const void* p);

#endif
