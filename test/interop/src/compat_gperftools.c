// A program written for gperftools, in C: compiled with its headers, it runs with its library and
// with ours of that name. The argument is the name of a scenario; those whose names begin with
// `ours` hold for ours only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/nallocx.h>
#include <gperftools/tcmalloc.h>

#include "compat.h"

static size_t property(const char* name) {
  size_t value = 0;
  EQUAL(MallocExtension_GetNumericProperty(name, &value), 1);
  return value;
}

enum { MIB = 1 << 20, BLOCKS = 40 };

static void properties(void) {
  for (int i = 0; i < 1000; i++) CHECK(malloc(1000) != NULL);
  const size_t before = property("generic.current_allocated_bytes");
  char* block[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK((block[i] = malloc(MIB)) != NULL);
    memset(block[i], 1, MIB);
  }
  const size_t allocated = property("generic.current_allocated_bytes");
  CHECK(allocated >= before + (size_t)BLOCKS * MIB);
  CHECK(allocated < before + (size_t)BLOCKS * MIB * 5 / 4 + MIB);
  CHECK(property("generic.heap_size") >= allocated);
  CHECK(property("generic.total_physical_bytes") >= allocated);
  CHECK(property("tcmalloc.pageheap_committed_bytes") >= allocated);
  for (size_t i = 0; i < BLOCKS; i++) free(block[i]);
  MallocExtension_MarkThreadTemporarilyIdle();
  MallocExtension_ReleaseFreeMemory();
  CHECK(property("generic.current_allocated_bytes") + (size_t)BLOCKS * MIB <= allocated);
  CHECK(property("tcmalloc.pageheap_unmapped_bytes") >= (size_t)BLOCKS * MIB / 2);
  CHECK(property("generic.total_physical_bytes") + (size_t)BLOCKS * MIB / 2 < allocated);
  // All that there is adds up.
  const size_t in_use = property("generic.current_allocated_bytes");
  const size_t size = property("generic.heap_size");
  const size_t free_bytes = property("tcmalloc.central_cache_free_bytes") +
                            property("tcmalloc.transfer_cache_free_bytes") +
                            property("tcmalloc.thread_cache_free_bytes") +
                            property("tcmalloc.pageheap_free_bytes") +
                            property("tcmalloc.pageheap_unmapped_bytes");
  EQUAL(size, in_use + free_bytes);
  EQUAL(size, property("tcmalloc.pageheap_committed_bytes") +
                  property("tcmalloc.pageheap_unmapped_bytes"));
  property("tcmalloc.current_total_thread_cache_bytes");
  property("tcmalloc.slack_bytes");
  size_t value = 77;
  EQUAL(MallocExtension_GetNumericProperty("no.such.property", &value), 0);
  EQUAL(value, 77);
  EQUAL(MallocExtension_SetNumericProperty("no.such.property", 1), 0);
  EQUAL(MallocExtension_SetNumericProperty("generic.heap_size", 1), 0);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 16 << 20), 1);
  EQUAL(property("tcmalloc.max_total_thread_cache_bytes"), 16 << 20);
  EQUAL(property("tcmalloc.aggressive_memory_decommit"), 0);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 1), 1);
  EQUAL(property("tcmalloc.aggressive_memory_decommit"), 1);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0), 1);
  EQUAL(property("tcmalloc.aggressive_memory_decommit"), 0);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.heap_limit_mb", 0), 1);
  EQUAL(property("tcmalloc.heap_limit_mb"), 0);
}

static void extension(void) {
  void* const p = malloc(100000);
  EQUAL(MallocExtension_VerifyAllMemory(), 1);
  EQUAL(MallocExtension_VerifyMallocMemory(p), 1);
  EQUAL(MallocExtension_VerifyNewMemory(p), 1);
  EQUAL(MallocExtension_VerifyArrayNewMemory(p), 1);
  EQUAL(MallocExtension_GetOwnership(p), MallocExtension_kOwned);
  EQUAL(MallocExtension_GetOwnership(NULL), MallocExtension_kNotOwned);
  EQUAL(MallocExtension_GetOwnership(&p), MallocExtension_kNotOwned);
  CHECK(MallocExtension_GetAllocatedSize(p) >= 100000);
  EQUAL(MallocExtension_GetAllocatedSize(p), malloc_usable_size(p));
  EQUAL(MallocExtension_GetAllocatedSize(NULL), 0);
  CHECK(MallocExtension_GetEstimatedAllocatedSize(100) >= 100);
  EQUAL(MallocExtension_GetEstimatedAllocatedSize(100), nallocx(100, 0));
  MallocExtension_MarkThreadIdle();
  MallocExtension_MarkThreadBusy();
  free(malloc(100));
  MallocExtension_ReleaseToSystem(1 << 20);
  MallocExtension_GetThreadCacheSize();
  int blocks = -1, histogram[kMallocExtensionHistogramSize];
  size_t total = 77;
  EQUAL(MallocExtension_MallocMemoryStats(&blocks, &total, histogram), 1);
  CHECK(blocks >= 0 && total != 77);
  char text[4000];
  MallocExtension_GetStats(text, sizeof(text));
  CHECK(strstr(text, "MALLOC:") != NULL && strstr(text, "Bytes in use by application") != NULL);
  CHECK(strstr(text, "Actual memory used (physical + swap)") != NULL);
  memset(text, 'x', sizeof(text));
  MallocExtension_GetStats(text, 100);
  CHECK(strlen(text) < 100 && text[100] == 'x');
  free(p);
}

static void names(void) {
  int major = 0, minor = 0;
  const char* patch = NULL;
  CHECK(strncmp(tc_version(&major, &minor, &patch), "gperftools ", 11) == 0);
  CHECK(major == 2 && minor >= 5 && patch != NULL);
  tc_version(NULL, NULL, NULL);
  char* p = tc_malloc(100);
  EQUAL(MallocExtension_GetOwnership(p), MallocExtension_kOwned);
  CHECK(tc_malloc_size(p) >= 100);
  memset(p, 0x55, 100);
  p = tc_realloc(p, 10000);
  all_are(p, 0, 100, 0x55);
  CHECK(tc_realloc(p, 0) == NULL);
  tc_free(tc_malloc_skip_new_handler(10));
  tc_free_sized(tc_malloc(10), 10);
  p = tc_calloc(100, 100);
  all_are(p, 0, 10000, 0);
  tc_cfree(p);
  EQUAL((uintptr_t)(p = tc_memalign(4096, 10)) % 4096, 0);
  free(p); // they are those of free
  void* q = NULL;
  EQUAL(tc_posix_memalign(&q, 64, 100), 0);
  EQUAL((uintptr_t)q % 64, 0);
  tc_free(q);
  EQUAL(tc_posix_memalign(&q, 3, 100), EINVAL);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  EQUAL((uintptr_t)(p = tc_valloc(10)) % page, 0);
  tc_free(p);
  p = tc_pvalloc(10);
  CHECK((uintptr_t)p % page == 0 && tc_malloc_size(p) >= page);
  tc_free(p);
  for (size_t size = 1; size < 1000000; size = size * 3 / 2 + 1) {
    for (int lg = 0; lg <= 12; lg++) {
      EQUAL(tc_nallocx(size, MALLOCX_LG_ALIGN(lg)), nallocx(size, MALLOCX_LG_ALIGN(lg)));
      q = tc_memalign((size_t)1 << lg, size);
      CHECK(nallocx(size, MALLOCX_LG_ALIGN(lg)) >= size);
      tc_free(q);
    }
  }
  tc_mallopt(1, 2);
  const size_t arena = (size_t)tc_mallinfo().arena;
  CHECK(arena > 0);
  volatile size_t huge = PTRDIFF_MAX / 2;
  CHECK(tc_malloc(huge) == NULL && tc_calloc(huge, 3) == NULL);
}

// -- Only ours --

static void ours(void) {
  long (*get)(int) = (long (*)(int))dlsym(RTLD_DEFAULT, "mi_option_get");
  CHECK(get != NULL);
  const long delay = get(15);
  CHECK(delay > 0);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 1), 1);
  EQUAL(get(15), 0);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0), 1);
  EQUAL(get(15), delay);
  EQUAL(MallocExtension_SetNumericProperty("tcmalloc.heap_limit_mb", 100), 0);
  EQUAL(MallocExtension_VerifyMallocMemory(&delay), 0);
  // An alignment that is no power of two is rounded up, by tc_memalign only. Blocks of the same
  // size, since one may be aligned by chance.
  const size_t alignments[] = {0, 3, 48, 5000, 100000};
  for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
    void* aligned[4];
    size_t power = 1;
    while (power < alignments[i]) power *= 2;
    for (size_t j = 0; j < 4; j++) {
      CHECK((aligned[j] = tc_memalign(alignments[i], 100)) != NULL);
      EQUAL((uintptr_t)aligned[j] % power, 0);
    }
    for (size_t j = 0; j < 4; j++) tc_free(aligned[j]);
    void* refused = NULL;
    EQUAL(tc_posix_memalign(&refused, alignments[i], 100), EINVAL);
  }
  errno = 0;
  CHECK(tc_memalign(SIZE_MAX / 2 + 2, 100) == NULL);
  EQUAL(errno, EINVAL);
  // The statistics of blocks are true.
  int blocks, more, histogram[64], now[64];
  size_t total, bytes;
  MallocExtension_MallocMemoryStats(&blocks, &total, histogram);
  for (int i = 0; i < 300; i++) CHECK(malloc(1000) != NULL);
  MallocExtension_MallocMemoryStats(&more, &bytes, now);
  CHECK(more >= blocks + 300 && bytes >= total + 300000);
  CHECK(now[9] + now[10] >= histogram[9] + histogram[10] + 300); // 512 to 2047 bytes
  void (*set_rate)(double) =
      (void (*)(double))dlsym(RTLD_DEFAULT, "MallocExtension_SetMemoryReleaseRate");
  double (*rate)(void) =
      (double (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_GetMemoryReleaseRate");
  CHECK(set_rate != NULL && rate != NULL);
  set_rate(4);
  EQUAL(get(15), 250);
  EQUAL(rate(), 4);
  set_rate(0);
  EQUAL(get(15), -1);
  EQUAL(rate(), 0);
}

// TCMALLOC_RELEASE_RATE=2 in the environment, and with it MIMALLOC_PURGE_DELAY=99 or not.
static void ours_rate(const char* wanted) {
  long (*get)(int) = (long (*)(int))dlsym(RTLD_DEFAULT, "mi_option_get");
  CHECK(get != NULL);
  EQUAL(get(15), atoi(wanted));
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
#define IS(name)                                                                                   \
  if (strcmp(what, #name) == 0) return (name(), 0)
  IS(properties);
  IS(extension);
  IS(names);
  IS(ours);
  if (strcmp(what, "ours_rate") == 0) return (ours_rate(argv[2]), 0);
  return 2;
}
