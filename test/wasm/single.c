// single.c - one thread: whose malloc it is, what blocks are like, and how much memory they take.
//
// single            all of that
// single mapped     the same rounds with blocks that are mappings of their own (the option
//                   arena_reserve): memory that is unmapped and mapped again
#include "programs.h"

#define SLOTS 60000

static unsigned char* slot[SLOTS];
static size_t size_of[SLOTS];

static void all_names_are_ours(void) {
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0);
  void* const p[] = {malloc(10), calloc(3, 5),     realloc(NULL, 7), aligned_alloc(MIB, MIB),
                     aligned,    strdup("by libc")};
  for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
    CHECK(IS_OURS(p[i]) && (uintptr_t)p[i] % 8 == 0);
    free(p[i]);
  }
}

// Most blocks are small, as in programs.
static size_t random_size(uint32_t* random) {
  const uint32_t kind = random_below(random, 1000);
  if (kind == 0) return random_below(random, 100000);
  return 1 + random_below(random, kind < 900 ? 256 : 4096);
}

static void blocks_keep_what_is_in_them(void) {
  uint32_t random = 1;
  size_t live = 0;
  size_t most = 0;
  for (size_t k = 0; k < 600000; k++) {
    const size_t i = random_below(&random, SLOTS);
    for (size_t j = 0; j < size_of[i]; j += 61) CHECK(slot[i][j] == (unsigned char)i);
    live -= size_of[i];
    free(slot[i]);
    size_of[i] = random_size(&random);
    slot[i] = (unsigned char*)malloc(size_of[i]);
    CHECK(slot[i] != NULL || size_of[i] == 0);
    memset(slot[i], (int)i, size_of[i]);
    live += size_of[i];
    if (live > most) most = live;
  }
  show("mixed_live_kib", most / 1024);
  show("mixed_end_kib", end_kib());
  for (size_t i = 0; i < SLOTS; i++) free(slot[i]);
}

static void bursts_use_the_same_memory(void) {
  for (uint32_t round = 0; round < 12; round++) {
    const size_t size = 700 + round % 4 * 400;
    const size_t count = 16 * MIB / size;
    for (size_t i = 0; i < count; i++) {
      slot[i] = (unsigned char*)calloc(1, size);
      CHECK(slot[i] != NULL && slot[i][0] == 0 && slot[i][size - 1] == 0);
      memset(slot[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) free(slot[i]);
  }
  show("bursts_end_kib", end_kib());
}

// A growing block, and one that is replaced by a larger one.
static void large_blocks_use_the_same_memory(void) {
  for (int round = 0; round < 8; round++) {
    unsigned char* p = NULL;
    for (size_t size = MIB; size <= 24 * MIB; size += size / 2) {
      p = (unsigned char*)realloc(p, size);
      CHECK(p != NULL);
      memset(p + size / 2, 0xA5, size - size / 2);
    }
    free(p);
    p = (unsigned char*)calloc(1, 20 * MIB);
    CHECK(p != NULL);
    for (size_t i = 0; i < 20 * MIB; i++) CHECK(p[i] == 0);
    memset(p, 0x5A, 20 * MIB);
    free(p);
  }
  show("large_end_kib", end_kib());
}

// There is no more memory: an error as any other; and all of it is used again, in one piece.
static void memory_ends(void) {
  void** first = NULL;
  size_t count = 0;
  for (;;) {
    errno = 0;
    void** const p = (void**)malloc(MIB);
    if (p == NULL) break;
    *p = first;
    first = p;
    count++;
  }
  CHECK(errno == ENOMEM);
  while (first != NULL) {
    void** const next = (void**)*first;
    free(first);
    first = next;
  }
  void* const all = malloc(count / 2 * MIB);
  CHECK(all != NULL);
  free(all);
  show("filled_mib", count);
}

#if !defined(PLAIN)
static void there_is_no_more_than_there_is(void) {
  size_t rss = 0;
  mi_process_info(NULL, NULL, NULL, &rss, NULL, NULL, NULL, NULL);
  CHECK(rss == (size_t)end_kib() * 1024);
  CHECK(mi_option_get(mi_option_purge_delay) == -1);
  char* const path = mi_realpath("/", NULL);
  CHECK(path == NULL ? errno == ENOSYS : strcmp(path, "/") == 0);
  mi_free(path);
}
#endif

int main(int argc, char** argv) {
  const int is_mapped = argc > 1 && strcmp(argv[1], "mapped") == 0;
  show("first_end_kib", end_kib());
  if (!is_mapped) {
    all_names_are_ours();
    show("small_end_kib", end_kib());
    blocks_keep_what_is_in_them();
    bursts_use_the_same_memory();
#if !defined(PLAIN)
    there_is_no_more_than_there_is();
#endif
  }
  large_blocks_use_the_same_memory();
  if (!is_mapped) memory_ends();
  return 0;
}
