// SPDX-License-Identifier: MIT
// fit.c - the index of the free runs of an arena: a tree of summaries over the words of `free`.
//
//   depth 2   [                        64 words                        ] ...
//   depth 1   [ 8 words ][ 8 words ] ...       a node for each 8 words, 512 slices
//   depth 0   the words themselves
//
//   node      free slices at its start, the longest run in it, free slices at its end
//
// A search for the lowest run of a length goes down where the longest run is long enough, and joins
// runs across nodes by ends and starts. It looks at 8 nodes of each depth at most, however large
// and fragmented the arena is (a segment tree: Bentley, "Solutions to Klee's rectangle problems",
// 1977).
//
// FIT-1  a node says what its children say, unless the bit in `fit_stale` of its 8 words, or of
//     some below it, is set. A thread that changes bits of `free` then sets that bit (mi_fit_note);
//     a page pays for no more. A search first makes the nodes above stale words anew, which are no
//     more than bits were set since the last search.
// FIT-2  no thread waits for another, so FIT-1 holds only as far as threads do not overtake each
//     other. A node that says too much costs a look: the search puts it right and goes on. One that
//     says too little hides slices, until a thread changes bits below it, or an arena is to grow
//     (mi_fit_rebuild, arena.c).
//
// All accesses are relaxed: the bitmap orders what counts. Deliberately absent: alignment, and the
// decision between runs (arena.c).
#include "fit.h"

#include "bitmap.h"

#define MI_FIT_FANOUT_SHIFT 3
#define MI_FIT_FANOUT ((size_t)1 << MI_FIT_FANOUT_SHIFT)

// A node: three lengths in slices, of 21 bits each. What is longer counts as the longest, and is
// searched for in the words.
#define MI_FIT_BITS 21
#define MI_FIT_MOST (((uint64_t)1 << MI_FIT_BITS) - 1)

typedef struct mi_fit_s {
  size_t head, longest, tail;
} mi_fit_t;

static inline uint64_t mi_fit_pack(mi_fit_t fit) {
  const uint64_t head = mi_bits_min(fit.head, MI_FIT_MOST);
  const uint64_t longest = mi_bits_min(fit.longest, MI_FIT_MOST);
  const uint64_t tail = mi_bits_min(fit.tail, MI_FIT_MOST);
  return head | longest << MI_FIT_BITS | tail << 2 * MI_FIT_BITS;
}

static inline mi_fit_t mi_fit_unpack(uint64_t node) {
  return (mi_fit_t){node & MI_FIT_MOST, node >> MI_FIT_BITS & MI_FIT_MOST, node >> 2 * MI_FIT_BITS};
}

// -- the tree --

// A node; those of depth 0 are words.
static inline mi_fit_node_t* mi_fit_node(const mi_arena_t* arena, size_t depth, size_t index) {
  return &arena->fit[depth - 1][index];
}

// How many nodes the depth above `count` nodes has.
static inline size_t mi_fit_above(size_t count) {
  return (count + MI_FIT_FANOUT - 1) >> MI_FIT_FANOUT_SHIFT;
}

static inline size_t mi_fit_span(size_t depth) {
  return MI_WORD_BITS << depth * MI_FIT_FANOUT_SHIFT;
}

_Static_assert(((uint64_t)MI_WORD_BITS << MI_FIT_DEPTH_MAX * MI_FIT_FANOUT_SHIFT) >=
                   (uint64_t)1 << (MI_ADDRESS_BITS - MI_SLICE_SHIFT),
               "the deepest tree has room for all slices that there are");

static size_t mi_fit_stale_words(size_t word_count) {
  return mi_bits_divide_up(mi_fit_above(word_count), MI_WORD_BITS);
}

MI_INTERNAL size_t mi_fit_size(size_t word_count) {
  size_t count = 0;
  size_t n = word_count;
  do {
    n = mi_fit_above(n);
    count += n;
  } while (n > 1);
  return count * sizeof(mi_fit_node_t) + mi_fit_stale_words(word_count) * sizeof(mi_bitmap_word_t);
}

MI_INTERNAL void mi_fit_init(mi_arena_t* arena, void* memory) {
  mi_fit_node_t* nodes = (mi_fit_node_t*)memory;
  size_t n = arena->word_count;
  arena->fit_depth = 0;
  do {
    n = mi_fit_above(n);
    arena->fit[arena->fit_depth++] = nodes;
    nodes += n;
  } while (n > 1);
  arena->fit_stale = (mi_bitmap_word_t*)nodes;
}

// The children of a node are those from `*first` on, up to the result.
static size_t mi_fit_children(const mi_arena_t* arena, size_t depth, size_t index, size_t* first) {
  size_t count = arena->word_count;
  if (depth > 1) count = (size_t)(arena->fit[depth - 1] - arena->fit[depth - 2]);
  *first = index << MI_FIT_FANOUT_SHIFT;
  return mi_bits_min(*first + MI_FIT_FANOUT, count);
}

// -- what nodes say --

static inline size_t mi_fit_head(uint64_t x) {
  return ~x == 0 ? MI_WORD_BITS : mi_bits_trailing_zeros(~x);
}

static inline size_t mi_fit_tail(uint64_t x) {
  return ~x == 0 ? MI_WORD_BITS : mi_bits_leading_zeros(~x);
}

// The longest run in a word, by halves: `runs[k]` has the starts of runs of 2^k ones.
static size_t mi_fit_longest(uint64_t x) {
  if (x == 0 || ~x == 0) return x == 0 ? 0 : MI_WORD_BITS;
  uint64_t runs[6] = {x};
  size_t k = 0;
  for (uint64_t next; k < 5 && (next = runs[k] & runs[k] >> ((size_t)1 << k)) != 0;) {
    runs[++k] = next;
  }
  uint64_t starts = runs[k];
  size_t length = (size_t)1 << k;
  while (k-- > 0) {
    const uint64_t longer = starts & runs[k] >> length;
    if (longer == 0) continue;
    starts = longer;
    length += (size_t)1 << k;
  }
  return length;
}

// The next child of a node is behind what `sum` is made of so far, `length` slices.
static inline void mi_fit_add(mi_fit_t* sum, size_t length, mi_fit_t child, size_t span) {
  if (sum->head == length) sum->head += child.head;
  sum->longest = mi_bits_max(sum->longest, mi_bits_max(child.longest, sum->tail + child.head));
  sum->tail = child.head >= span ? sum->tail + span : child.tail;
}

// What a node should say.
static mi_fit_t mi_fit_of(mi_arena_t* arena, size_t depth, size_t index) {
  const size_t span = mi_fit_span(depth - 1);
  mi_fit_t sum = {0};
  size_t i;
  const size_t end = mi_fit_children(arena, depth, index, &i);
  for (size_t length = 0; i < end; i++, length += span) {
    mi_fit_t child;
    if (depth == 1) {
      const uint64_t x = mi_atomic_load_relaxed(&arena->free[i]);
      child = (mi_fit_t){mi_fit_head(x), mi_fit_longest(x), mi_fit_tail(x)};
    } else {
      child = mi_fit_unpack(mi_atomic_load_relaxed(mi_fit_node(arena, depth - 1, i)));
    }
    mi_fit_add(&sum, length, child, span);
  }
  return sum;
}

// Make a node anew. False: it was right.
static bool mi_fit_refresh(mi_arena_t* arena, size_t depth, size_t index) {
  mi_fit_node_t* const node = mi_fit_node(arena, depth, index);
  bool is_changed = false;
  uint64_t old = mi_atomic_load_relaxed(node);
  uint64_t now;
  while ((now = mi_fit_pack(mi_fit_of(arena, depth, index))) != old) {
    is_changed = true;
    if (mi_os_is_single_threaded()) {
      mi_atomic_store_relaxed(node, now);
      break;
    }
    // And look again: what it was made of may have changed meanwhile.
    if (mi_atomic_cas_weak_relaxed(node, &old, now)) old = now;
  }
  return is_changed;
}

MI_INTERNAL void mi_fit_note(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t first = slice_index / mi_fit_span(1);
  const size_t last = (slice_index + slice_count - 1) / mi_fit_span(1);
  mi_bitmap_set(arena->fit_stale, first, last - first + 1);
}

// Make a node of depth 1 anew, and those above it until one is right.
static void mi_fit_update(mi_arena_t* arena, size_t index) {
  for (size_t depth = 1; depth <= arena->fit_depth; depth++, index >>= MI_FIT_FANOUT_SHIFT) {
    if (!mi_fit_refresh(arena, depth, index)) return;
  }
}

// FIT-1
static void mi_fit_settle(mi_arena_t* arena) {
  const size_t word_count = mi_fit_stale_words(arena->word_count);
  for (size_t w = 0; w < word_count; w++) {
    if (mi_likely(mi_atomic_load_relaxed(&arena->fit_stale[w]) == 0)) continue;
    uint64_t stale = mi_atomic_swap_relaxed(&arena->fit_stale[w], 0);
    for (; stale != 0; stale &= stale - 1) {
      mi_fit_update(arena, w * MI_WORD_BITS + mi_bits_trailing_zeros(stale));
    }
  }
}

MI_INTERNAL size_t mi_fit_rebuild(mi_arena_t* arena) {
  mi_fit_settle(arena);
  size_t wrong = 0;
  size_t n = arena->word_count;
  for (size_t depth = 1; depth <= arena->fit_depth; depth++) {
    n = mi_fit_above(n);
    for (size_t i = 0; i < n; i++) wrong += mi_fit_refresh(arena, depth, i) ? 1 : 0;
  }
  return wrong;
}

// -- search --

// A search for `count` slices from `from` on. `before` free slices end where it is.
typedef struct mi_fit_search_s {
  mi_arena_t* arena;
  size_t from, count, before;
  size_t found;
} mi_fit_search_t;

static bool mi_fit_search_word(mi_fit_search_t* search, size_t index) {
  const size_t start = index * MI_WORD_BITS;
  uint64_t x = mi_atomic_load_relaxed(&search->arena->free[index]);
  if (search->from > start) x &= ~mi_bits_mask(search->from - start);
  if (search->before + mi_fit_head(x) >= search->count) {
    search->found = start - search->before;
    return true;
  }
  const size_t bit =
      search->count <= MI_WORD_BITS ? mi_bitmap_find_in_word(x, search->count) : MI_BITMAP_NONE;
  if (bit != MI_BITMAP_NONE) {
    search->found = start + bit;
    return true;
  }
  search->before = ~x == 0 ? search->before + MI_WORD_BITS : mi_fit_tail(x);
  return false;
}

static bool mi_fit_search(mi_fit_search_t* search, size_t depth, size_t index);

// A node that lies behind `from`: look into it only if it has a run.
static bool mi_fit_search_node(mi_fit_search_t* search, size_t depth, size_t index) {
  const mi_fit_t fit =
      mi_fit_unpack(mi_atomic_load_relaxed(mi_fit_node(search->arena, depth, index)));
  const size_t span = mi_fit_span(depth);
  if (search->before + fit.head >= search->count) {
    search->found = index * span - search->before;
    return true;
  }
  if (fit.longest >= search->count) {
    if (mi_fit_search(search, depth, index)) return true;
    mi_fit_refresh(search->arena, depth, index); // FIT-2
    return false;
  }
  search->before = fit.head >= span ? search->before + span : fit.tail;
  return false;
}

// Below a node that has a run, or in which the search starts.
static bool mi_fit_search(mi_fit_search_t* search, size_t depth, size_t index) {
  const size_t span = mi_fit_span(depth - 1);
  size_t i;
  const size_t end = mi_fit_children(search->arena, depth, index, &i);
  if (search->from > i * span) i = search->from / span;
  for (; i < end; i++) {
    const bool is_found = depth == 1                 ? mi_fit_search_word(search, i)
                          : search->from <= i * span ? mi_fit_search_node(search, depth - 1, i)
                                                     : mi_fit_search(search, depth - 1, i);
    if (is_found) return true;
  }
  return false;
}

MI_INTERNAL size_t mi_fit_find(mi_arena_t* arena, size_t from, size_t slice_count) {
  if (mi_unlikely(slice_count > MI_FIT_MOST)) { // 128 GiB: no node has such a length
    return mi_bitmap_find_run(arena->free, from, arena->word_count * MI_WORD_BITS, slice_count, 1,
                              0);
  }
  mi_fit_settle(arena);
  const size_t depth = arena->fit_depth;
  const mi_fit_t all = mi_fit_unpack(mi_atomic_load_relaxed(mi_fit_node(arena, depth, 0)));
  if (all.longest < slice_count) return MI_BITMAP_NONE;
  mi_fit_search_t search = {arena, from, slice_count, 0, MI_BITMAP_NONE};
  return mi_fit_search(&search, depth, 0) ? search.found : MI_BITMAP_NONE;
}
