// SPDX-License-Identifier: MIT
// gperftools_class.c - the class MallocExtension, which C++ programs reach gperftools by:
// MallocExtension::instance()->ReleaseFreeMemory().
//
// A program calls the static function instance, by name, and all others through the table of
// virtual functions of the object that this returns. The library is C, so the table is written
// here, as the Itanium ABI lays it out: an offset, the type, the functions in the order of
// malloc_extension.h. A function gets the object as its first argument.
//
//   object -> table + 2     offset to the whole object: 0
//                           type: NULL
//                        -> destructors, of the object and with its memory
//                           VerifyAllMemory, ...
//
// GPERFTOOLS_CLASS-1  a slot is never moved: programs have its number compiled in.
// GPERFTOOLS_CLASS-2  what takes a string or a vector of C++ leaves it as it is, empty.
//
// Deliberately absent: run-time type information and the functions of the class under their own
// names. So a program cannot derive a class from it: that fails when it is linked or loaded.
#include "gperftools.h"

typedef struct mi_gperftools_object_s {
  const void* table;
} mi_gperftools_object_t;

#define THIS void* object
#define UNUSED (void)object

static void mi_gperftools_class_destroy(THIS) { UNUSED; }
static void mi_gperftools_class_ignore(THIS, void* unused) {
  UNUSED;
  (void)unused;
}
static void mi_gperftools_class_ignore_two(THIS, void* arg, void* function) {
  UNUSED;
  (void)arg;
  (void)function;
}
static void* mi_gperftools_class_none(THIS) {
  UNUSED;
  return NULL;
}
static void* mi_gperftools_class_no_traces(THIS, int* sample_period) {
  UNUSED;
  if (sample_period != NULL) *sample_period = 0;
  return NULL;
}
static bool mi_gperftools_class_verify_all(THIS) {
  UNUSED;
  return MallocExtension_VerifyAllMemory();
}
static bool mi_gperftools_class_verify(THIS, const void* p) {
  UNUSED;
  return MallocExtension_VerifyMallocMemory(p);
}
static bool mi_gperftools_class_memory_stats(THIS, int* blocks, size_t* total, int* histogram) {
  UNUSED;
  return MallocExtension_MallocMemoryStats(blocks, total, histogram);
}
static void mi_gperftools_class_get_stats(THIS, char* buffer, int length) {
  UNUSED;
  MallocExtension_GetStats(buffer, length);
}
static bool mi_gperftools_class_get_property(THIS, const char* property, size_t* value) {
  UNUSED;
  return MallocExtension_GetNumericProperty(property, value);
}
static bool mi_gperftools_class_set_property(THIS, const char* property, size_t value) {
  UNUSED;
  return MallocExtension_SetNumericProperty(property, value);
}
static void mi_gperftools_class_idle(THIS) {
  UNUSED;
  MallocExtension_MarkThreadIdle();
}
static void mi_gperftools_class_busy(THIS) {
  UNUSED;
  MallocExtension_MarkThreadBusy();
}
static void mi_gperftools_class_release(THIS, size_t bytes) {
  UNUSED;
  MallocExtension_ReleaseToSystem(bytes);
}
static void mi_gperftools_class_release_all(THIS) {
  UNUSED;
  MallocExtension_ReleaseFreeMemory();
}
static void mi_gperftools_class_set_rate(THIS, double rate) {
  UNUSED;
  MallocExtension_SetMemoryReleaseRate(rate);
}
static double mi_gperftools_class_get_rate(THIS) {
  UNUSED;
  return MallocExtension_GetMemoryReleaseRate();
}
static size_t mi_gperftools_class_estimate(THIS, size_t size) {
  UNUSED;
  return MallocExtension_GetEstimatedAllocatedSize(size);
}
static size_t mi_gperftools_class_size(THIS, const void* p) {
  UNUSED;
  return MallocExtension_GetAllocatedSize(p);
}
static mi_gperftools_owner_t mi_gperftools_class_owner(THIS, const void* p) {
  UNUSED;
  return MallocExtension_GetOwnership(p);
}
static size_t mi_gperftools_class_cache_size(THIS) {
  UNUSED;
  return MallocExtension_GetThreadCacheSize();
}
static void mi_gperftools_class_rest(THIS) {
  UNUSED;
  MallocExtension_MarkThreadTemporarilyIdle();
}
#undef THIS
#undef UNUSED

typedef void mi_gperftools_class_fun(void);
#define SLOT(function) ((mi_gperftools_class_fun*)(void*)&(function))

static const struct {
  ptrdiff_t offset;
  const void* type;
  mi_gperftools_class_fun* slot[29];
} mi_gperftools_class_table = {
    0,
    NULL,
    {
        SLOT(mi_gperftools_class_destroy), // of the object
        SLOT(mi_gperftools_class_destroy), // and with its memory
        SLOT(mi_gperftools_class_verify_all), // VerifyAllMemory
        SLOT(mi_gperftools_class_verify), // VerifyNewMemory
        SLOT(mi_gperftools_class_verify), // VerifyArrayNewMemory
        SLOT(mi_gperftools_class_verify), // VerifyMallocMemory
        SLOT(mi_gperftools_class_memory_stats), // MallocMemoryStats
        SLOT(mi_gperftools_class_get_stats), // GetStats
        SLOT(mi_gperftools_class_ignore), // GetHeapSample
        SLOT(mi_gperftools_class_ignore), // GetHeapGrowthStacks
        SLOT(mi_gperftools_class_ignore_two), // Ranges
        SLOT(mi_gperftools_class_get_property), // GetNumericProperty
        SLOT(mi_gperftools_class_set_property), // SetNumericProperty
        SLOT(mi_gperftools_class_idle), // MarkThreadIdle
        SLOT(mi_gperftools_class_busy), // MarkThreadBusy
        SLOT(mi_gperftools_class_none), // GetSystemAllocator
        SLOT(mi_gperftools_class_ignore), // SetSystemAllocator
        SLOT(mi_gperftools_class_release), // ReleaseToSystem
        SLOT(mi_gperftools_class_release_all), // ReleaseFreeMemory
        SLOT(mi_gperftools_class_set_rate), // SetMemoryReleaseRate
        SLOT(mi_gperftools_class_get_rate), // GetMemoryReleaseRate
        SLOT(mi_gperftools_class_estimate), // GetEstimatedAllocatedSize
        SLOT(mi_gperftools_class_size), // GetAllocatedSize
        SLOT(mi_gperftools_class_owner), // GetOwnership
        SLOT(mi_gperftools_class_ignore), // GetFreeListSizes
        SLOT(mi_gperftools_class_no_traces), // ReadStackTraces
        SLOT(mi_gperftools_class_none), // ReadHeapGrowthStackTraces
        SLOT(mi_gperftools_class_cache_size), // GetThreadCacheSize
        SLOT(mi_gperftools_class_rest), // MarkThreadTemporarilyIdle
    },
};

static mi_gperftools_object_t mi_gperftools_class_own = {mi_gperftools_class_table.slot};
// The object that a program has registered, or NULL. Written by any thread, with release; read by
// any, with acquire: who gets it sees what is in it.
static mi_atomic(void*) mi_gperftools_class_registered;

MI_COMPAT_EXPORT void*
mi_gperftools_class_instance(void) __asm__("_ZN15MallocExtension8instanceEv");
MI_COMPAT_EXPORT void* mi_gperftools_class_instance(void) {
  // Sees the object; pairs with the release in `mi_gperftools_class_register`.
  void* const registered = mi_atomic_load_acquire(&mi_gperftools_class_registered);
  return registered != NULL ? registered : &mi_gperftools_class_own;
}

MI_COMPAT_EXPORT void
mi_gperftools_class_register(void* object) __asm__("_ZN15MallocExtension8RegisterEPS_");
MI_COMPAT_EXPORT void mi_gperftools_class_register(void* object) {
  // Publishes the object; pairs with the acquire in `mi_gperftools_class_instance`.
  mi_atomic_store_release(&mi_gperftools_class_registered, object);
}

MI_COMPAT_EXPORT void
mi_gperftools_class_initialize(void) __asm__("_ZN15MallocExtension10InitializeEv");
MI_COMPAT_EXPORT void mi_gperftools_class_initialize(void) {} // it is ready
