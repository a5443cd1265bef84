// SPDX-License-Identifier: MIT
// metadata.c - memory that the allocator touches beside the blocks of a heap.
//
//   metadata MIB SIZE    a heap of that many MiB of blocks; SIZE 0: of all sizes to 256 KiB
//
// Counts resident OS pages one by one in /proc/self/pagemap: of anonymous mappings without a name
// and the library's own data. Those in whose 64 KiB is a block are the heap; those in whose 2 MiB
// is one were faulted in ahead of their use, in a huge page; all others are metadata. Prints
// "asked KIB heap KIB ahead KIB metadata KIB". METADATA_SHOW=1 prints where the metadata is.
#include "figures.h"

#define SLICE ((uintptr_t)65536)
#define CHUNK_SLICES ((uintptr_t)32)
#define OS_PAGE ((uintptr_t)4096)
#define ADDRESS_MAX ((uint64_t)1 << (sizeof(void*) > 4 ? 47 : 32))

// A bit for each slice of the address space, and nothing in between: mostly never touched.
static uint8_t has_block[ADDRESS_MAX / SLICE / 8];

static void mark(uintptr_t start, size_t size) {
  for (uintptr_t s = start / SLICE; s <= (start + size - 1) / SLICE; s++) {
    has_block[s / 8] |= (uint8_t)(1u << s % 8);
  }
}

typedef struct {
  size_t heap, ahead, metadata; // OS pages
} count_t;

static void count_in(int pagemap, uintptr_t start, uintptr_t end, count_t* count) {
  static uint64_t entry[SLICE / OS_PAGE];
  for (uintptr_t at = start; at < end;) {
    const uintptr_t next = (at / SLICE + 1) * SLICE < end ? (at / SLICE + 1) * SLICE : end;
    const size_t n = (next - at) / OS_PAGE;
    if (pread(pagemap, entry, n * 8, (off_t)(at / OS_PAGE * 8)) != (ssize_t)(n * 8)) _exit(3);
    size_t present = 0;
    for (size_t i = 0; i < n; i++) present += entry[i] >> 63;
    const uintptr_t s = at / SLICE;
    // A chunk is four whole bytes.
    uint32_t chunk;
    memcpy(&chunk, &has_block[s / CHUNK_SLICES * (CHUNK_SLICES / 8)], sizeof(chunk));
    if ((has_block[s / 8] >> s % 8 & 1) != 0) {
      count->heap += present;
    } else if (chunk != 0) {
      count->ahead += present;
    } else {
      count->metadata += present;
    }
    at = next;
  }
}

static count_t count_all(void) {
  static char text[1 << 20];
  count_t count = {0, 0, 0};
  const int maps = open("/proc/self/maps", O_RDONLY);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY);
  size_t length = 0;
  for (ssize_t n; (n = read(maps, text + length, sizeof(text) - 1 - length)) > 0;)
    length += (size_t)n;
  if (maps < 0 || pagemap < 0 || length >= sizeof(text) - 1) _exit(3);
  bool is_others = false; // does the last mapping with a name belong to somebody else?
  unsigned long last_end = 0;
  for (char* line = text; *line != 0;) {
    char* const end_of_line = strchr(line, '\n');
    *end_of_line = 0;
    unsigned long start, end;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) _exit(3);
    const bool is_named = strchr(line, '/') != NULL || strchr(line, '[') != NULL;
    if (is_named) is_others = strstr(line, "libmimalloc") == NULL;
    // The zeroed data of a program or library has no name and follows the rest of its data.
    const bool is_counted = rights[1] == 'w' && (is_named || last_end == start ? !is_others : true);
    if (is_counted) {
      const size_t before = count.metadata;
      count_in(pagemap, start, end, &count);
      const size_t here = (count.metadata - before) * OS_PAGE / 1024;
      if (getenv("METADATA_SHOW") != NULL && here > 0) printf("%6zu %s\n", here, line);
    }
    if (is_named || last_end == start) last_end = end;
    line = end_of_line + 1;
  }
  return count;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const size_t wanted = strtoul(argv[1], NULL, 10) * FIGURES_MIB;
  const size_t fixed = strtoul(argv[2], NULL, 10);
  uint64_t state = 88172645463325252u;
  size_t bytes = 0;
  while (bytes < wanted) {
    // Every magnitude equally likely, so that all classes are used and large ones hold most bytes.
    const size_t top = (size_t)16 << random_below(&state, 14);
    const size_t size = fixed != 0 ? fixed : top + random_next(&state) % top;
    void* const p = malloc(size);
    if (p == NULL) return 1;
    figures_fill(p, size);
    mark((uintptr_t)p, size);
    bytes += size;
  }
  const count_t count = count_all();
  printf("asked %zu heap %zu ahead %zu metadata %zu\n", bytes / 1024, count.heap * OS_PAGE / 1024,
         count.ahead * OS_PAGE / 1024, count.metadata * OS_PAGE / 1024);
  return 0;
}
