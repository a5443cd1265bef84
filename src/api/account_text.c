// SPDX-License-Identifier: MIT
// account_text.c - mi_explain: where the memory of the process is, as text for people.
//
//   mi_account_make -> parts, sizes, heaps, threads; call sites if there is a profile
//   mi_account_each_run -> map
//
// It says what the program mimalloc-inspect says from outside, in the same order and words, so that
// the guide explains both at once. docs/guide.md has an example.
//
// ACCOUNT_TEXT-1  no lock is held while text is printed. The map is measured meanwhile.
// ACCOUNT_TEXT-2  each message has whole lines (mi_output_fun), of at most 255 bytes. Of sizes,
//     heaps and threads, those with most resident memory have one, so that the text stays short
//     whatever the program has.
// Deliberately absent: what is in memory that is not ours, and the names of threads, for which
// files of the system must be read and other threads looked into; a text for programs (JSON). The
// program has these.
#include "stats.h"

#include "../core/core.h"
#include "mimalloc-profile.h"

// Heaps, threads, and sizes that have a line.
#define MI_ACCOUNT_SHOWN ((size_t)24)
#define MI_ACCOUNT_SIZES (MI_CLASS_COUNT + MI_ACCOUNT_SINGLES)

// -- Formatting --

// Short texts, which would otherwise lie among what every program reads.
static const char mi_account_share[] mi_attr_rare = "%zu %%";
static const char mi_account_number[] mi_attr_rare = "%zu";
static const char mi_account_total[] mi_attr_rare = "%17lld";
static const char mi_account_only[] mi_attr_rare = "Resident, of this library: %s\n";
static const char mi_account_part[] mi_attr_rare = "  %-14s%12s%7s  %s\n";
static const char mi_account_blocks[] mi_attr_rare = "\nBlocks in use: %zu, %s%s\n";
static const char mi_account_absent[] mi_attr_rare = ", of which %s is not resident";
static const char mi_account_main[] mi_attr_rare = "main";
static const char mi_account_heap[] mi_attr_rare = "heap %zu";
static const char mi_account_subproc[] mi_attr_rare = " of sub-process %zu";
static const char mi_account_ended[] mi_attr_rare = ", ended";
static const char mi_account_nobody[] mi_attr_rare = "pages of no thread";
static const char mi_account_somebody[] mi_attr_rare = "thread 0x%zx%s";
static const char mi_account_asker[] mi_attr_rare = ", which asks";
static const char mi_account_line[] mi_attr_rare = "  %-44s%9zu%11zu%12s%12s%12s\n";
static const char mi_account_heaps[] mi_attr_rare = "By heaps:";
static const char mi_account_threads[] mi_attr_rare = "By threads:";
static const char mi_account_map_row[] mi_attr_rare = "  %16p |%s|\n";
static const char mi_account_arena[] mi_attr_rare = "\nArena at %p%s: %s; a letter is %s\n";
static const char mi_account_flags[3][12] mi_attr_rare = {", pinned", ", foreign", ", exclusive"};
static const char mi_account_singles[MI_ACCOUNT_SINGLES][12] mi_attr_rare = {"own page", "samples",
                                                                             "guarded"};
static const char mi_account_signs[] mi_attr_rare = ".:-=+*#";

typedef struct mi_cell_s {
  char text[MI_STATS_CELL_MAX];
} mi_cell_t;

static mi_cell_t mi_account_bytes(uint64_t bytes) {
  mi_cell_t cell;
  mi_stats_format(cell.text, (int64_t)bytes, MI_STATS_BYTES);
  return cell;
}

static mi_cell_t mi_account_percent(uint64_t part, uint64_t whole) {
  mi_cell_t cell = {""};
  const uint64_t percent = whole > 0 ? (100 * part + whole / 2) / whole : 0;
  if (whole > 0) mi_text_format(cell.text, sizeof(cell.text), mi_account_share, (size_t)percent);
  return cell;
}

// -- Parts --

static const struct mi_account_part_s {
  char name[16];
  char about[80];
} mi_account_parts[] mi_attr_rare = {
    {"in use", "blocks that the program has"},
    {"free in pages", "beside blocks in use, or in pages kept for the next blocks of that size"},
    {"kept", "free memory that has not gone back yet"},
    {"metadata", "the library's own structures"},
    {"not ours", "stacks, data of libraries, what the program maps itself"},
};

static void mi_account_print_whole(mi_sink_t sink, const mi_account_t* account) {
  const mi_os_resident_t* const sum = &account->process;
  if (!account->is_resident_known) {
    mi_output_print(sink, "The system does not say what is resident: what it charges for, as far "
                          "as the library knows, stands for that.\n");
  }
  if (sum->all > 0) {
    mi_output_print(sink, "Resident, without files: %s (all: %s; swapped out: %s)\n",
                    mi_account_bytes(sum->anonymous).text, mi_account_bytes(sum->all).text,
                    mi_account_bytes(sum->swapped).text);
  } else {
    mi_output_print(sink, mi_account_only, mi_account_bytes(mi_account_ours(account)).text);
  }
}

static void mi_account_print_parts(mi_sink_t sink, const mi_account_t* account) {
  const size_t ours = mi_account_ours(account);
  const uint64_t whole = mi_bits_max((size_t)account->process.anonymous, ours);
  const mi_account_sum_t* const all = &account->all;
  const uint64_t part[] = {all->in_use, all->resident - all->in_use, account->kept,
                           account->metadata + account->marks, whole - ours};
  const size_t count =
      account->process.all > 0 ? 5 : 4; // what is not ours is not known without that
  for (size_t i = 0; i < count; i++) {
    mi_output_print(sink, mi_account_part, mi_account_parts[i].name, mi_account_bytes(part[i]).text,
                    mi_account_percent(part[i], whole).text, mi_account_parts[i].about);
  }
}

static void mi_account_print_notes(mi_sink_t sink, const mi_account_t* account) {
  const mi_account_sum_t* const all = &account->all;
  char absent[64] = "";
  if (all->bytes > all->in_use) {
    mi_text_format(absent, sizeof(absent), mi_account_absent,
                   mi_account_bytes(all->bytes - all->in_use).text);
  }
  mi_output_print(sink, mi_account_blocks, all->blocks, mi_account_bytes(all->bytes).text, absent);
  mi_output_print(sink,
                  "A collect would give back %s that is kept, and each thread that collects its "
                  "part of %s in pages without a block in use.\n",
                  mi_account_bytes(account->kept - account->kept_for_ever).text,
                  mi_account_bytes(account->empty).text);
  if (account->kept_for_ever > 0) {
    mi_output_print(sink,
                    "%s of what is kept never goes back: it is pinned, or memory of the program.\n",
                    mi_account_bytes(account->kept_for_ever).text);
  }
}

// -- Sizes --

// True if the sum is among those with most resident memory.
static bool mi_account_is_shown(const mi_account_t* account, size_t i) {
  const size_t resident = account->of_class[i].resident;
  size_t before = 0;
  for (size_t k = 0; k < MI_ACCOUNT_SIZES; k++) {
    const size_t other = account->of_class[k].resident;
    const bool is_before = other > resident || (other == resident && k < i);
    if (account->of_class[k].pages > 0 && is_before) before++;
  }
  return account->of_class[i].pages > 0 && before < MI_ACCOUNT_SHOWN;
}

static void mi_account_print_size(mi_sink_t sink, const mi_account_t* account, size_t i) {
  const mi_account_sum_t* const sum = &account->of_class[i];
  const size_t unused = sum->resident - sum->in_use;
  const bool is_class = i < MI_CLASS_COUNT;
  char size[MI_STATS_CELL_MAX];
  char handed[MI_STATS_CELL_MAX] = "";
  if (is_class) {
    mi_text_format(size, sizeof(size), mi_account_number, mi_class_size(i));
    const int64_t count = account->handed[i] > 0 ? account->handed[i] : 0;
    mi_text_format(handed, sizeof(handed), mi_account_total, (long long)count);
  } else {
    mi_text_append(size, sizeof(size), 0, mi_account_singles[i - MI_CLASS_COUNT]);
  }
  mi_output_print(sink, "  %8s%9zu%11zu%12s%13zu%12s%12s%7s%s\n", size, sum->pages, sum->blocks,
                  mi_account_bytes(sum->bytes).text, sum->carved - sum->blocks,
                  mi_account_bytes(sum->resident).text, mi_account_bytes(unused).text,
                  mi_account_percent(unused, sum->resident).text, handed);
}

static void mi_account_print_sizes(mi_sink_t sink, const mi_account_t* account) {
  if (account->all.pages == 0) return;
  mi_output_print(sink, "\nBy size of blocks:\n      size    pages     blocks      in use  free "
                        "blocks    resident        free          ever allocated\n");
  size_t hidden = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < MI_ACCOUNT_SIZES; i++) {
    if (mi_account_is_shown(account, i)) {
      mi_account_print_size(sink, account, i);
    } else if (account->of_class[i].pages > 0) {
      hidden++;
      bytes += account->of_class[i].resident;
    }
  }
  if (hidden > 0) {
    mi_output_print(sink, "  and %zu sizes with %s resident\n", hidden,
                    mi_account_bytes(bytes).text);
  }
}

// -- Heaps and threads --

typedef void mi_account_name_fun(uintptr_t key, char* name, size_t capacity);

static mi_attr_racy void mi_account_heap_name(uintptr_t key, char* name, size_t capacity) {
  const mi_heap_t* const heap = (const mi_heap_t*)key; // its structure stays: TYPES-2
  const size_t subproc = mi_atomic_peek(&heap->subproc->sequence);
  size_t used = heap->is_main ? mi_text_format(name, capacity, mi_account_main)
                              : mi_text_format(name, capacity, mi_account_heap,
                                               mi_atomic_peek(&heap->sequence));
  if (subproc != 0) {
    used += mi_text_format(name + used, capacity - used, mi_account_subproc, subproc);
  }
  const bool has_ended = !heap->is_main && mi_atomic_peek(&heap->link) == NULL;
  if (has_ended) mi_text_append(name, capacity, used, mi_account_ended);
}

static void mi_account_thread_name(uintptr_t key, char* name, size_t capacity) {
  if (key == MI_OWNER_SINGLE) {
    mi_text_format(name, capacity, "blocks with a page of their own (any thread)");
  } else if (key == MI_OWNER_SHARED) {
    mi_text_format(name, capacity, mi_account_nobody);
  } else {
    mi_text_format(name, capacity, mi_account_somebody, (size_t)key,
                   key == mi_self_home()->thread_id ? mi_account_asker : "");
  }
}

static void mi_account_print_row(mi_sink_t sink, const char* name, const mi_account_sum_t* sum) {
  mi_output_print(sink, mi_account_line, name, sum->pages, sum->blocks,
                  mi_account_bytes(sum->bytes).text, mi_account_bytes(sum->resident).text,
                  mi_account_bytes(sum->resident - sum->in_use).text);
}

// `resident` is the sum of all rows.
static void mi_account_print_rows(mi_sink_t sink, const char* title, const mi_account_rows_t* rows,
                                  size_t resident, mi_account_name_fun* name_of) {
  if (resident == 0) return;
  mi_output_print(sink, "\n%-46s    pages     blocks      in use    resident        free\n", title);
  const mi_account_row_t* row = NULL;
  size_t shown = 0;
  size_t rest = resident;
  while (shown < MI_ACCOUNT_SHOWN && (row = mi_account_next(rows, row)) != NULL) {
    char name[64];
    name_of(row->key, name, sizeof(name));
    mi_account_print_row(sink, name, &row->sum);
    rest -= mi_bits_min(row->sum.resident, rest);
    shown++;
  }
  if (rest > 0) {
    const size_t more = rows->used + (rows->others.pages > 0 ? 1 : 0) - shown;
    mi_output_print(sink, "  and %zu others with %s resident\n", more, mi_account_bytes(rest).text);
  }
}

// -- The map --

#define MI_ACCOUNT_WIDTH ((size_t)64)
#define MI_ACCOUNT_CELLS ((size_t)2048) // about, of all arenas

// A letter for some slices.
typedef struct mi_account_map_s {
  mi_sink_t sink;
  mi_os_page_state_t counts; // which OS pages count as resident
  size_t slices; // of a cell
  uint64_t resident, in_use, kept; // bytes, of the cell that is being filled
  size_t blank; // cells since the last line that had a letter
  char line[MI_ACCOUNT_WIDTH + 1];
} mi_account_map_t;

// How much of a cell is resident, and whether that is used, free or kept.
static char mi_account_letter(const mi_account_map_t* map) {
  const size_t steps = sizeof(mi_account_signs) - 1;
  if (map->resident == 0) return ' ';
  if (map->kept * 2 > map->resident) return 'k';
  if ((map->resident - map->kept - map->in_use) * 2 > map->resident) return 'f';
  const uint64_t step = map->in_use * steps / (map->slices * MI_SLICE_SIZE);
  return mi_account_signs[mi_bits_min((size_t)step, steps - 1)];
}

static void mi_account_map_blank(mi_account_map_t* map) {
  if (map->blank == 0) return;
  mi_output_print(map->sink, "  %s of which nothing is resident\n",
                  mi_account_bytes(map->blank * map->slices * MI_SLICE_SIZE).text);
  map->blank = 0;
}

// The cells of a line, `count` of them, are known.
static void mi_account_map_line(mi_account_map_t* map, const uint8_t* start, size_t count) {
  size_t used = MI_ACCOUNT_WIDTH;
  while (used > 0 && map->line[used - 1] == ' ') used--;
  if (used == 0) {
    map->blank += count;
    return;
  }
  mi_account_map_blank(map);
  mi_output_print(map->sink, mi_account_map_row, (const void*)start, map->line);
}

// A slice more: end the cell, and the line, if they are full.
static void mi_account_map_slice(mi_account_map_t* map, const mi_arena_t* arena, size_t slice) {
  const bool is_last = slice + 1 == mi_arena_slices(arena);
  if ((slice + 1) % map->slices != 0 && !is_last) return;
  const size_t cell = slice / map->slices;
  map->line[cell % MI_ACCOUNT_WIDTH] = mi_account_letter(map);
  map->resident = map->in_use = map->kept = 0;
  if ((cell + 1) % MI_ACCOUNT_WIDTH != 0 && !is_last) return;
  for (size_t i = cell % MI_ACCOUNT_WIDTH + 1; i < MI_ACCOUNT_WIDTH; i++) map->line[i] = ' ';
  const size_t first = mi_bits_align_down(cell, MI_ACCOUNT_WIDTH);
  mi_account_map_line(map, arena->start + first * map->slices * MI_SLICE_SIZE, cell + 1 - first);
}

static void mi_account_map_run(mi_account_view_t* view, const mi_account_run_t* run, void* arg) {
  mi_account_map_t* const map = (mi_account_map_t*)arg;
  for (size_t i = 0; i < run->count; i++) {
    const uint64_t resident = mi_account_resident(view, run->first + i);
    map->resident += resident;
    if (run->page == NULL) map->kept += resident;
    if (run->resident > 0) map->in_use += resident * run->in_use / run->resident;
    mi_account_map_slice(map, view->arena, run->first + i);
  }
}

// Its sub-process may end meanwhile, and another one take the arena.
static mi_attr_racy size_t mi_account_arena_subproc(const mi_arena_t* arena) {
  return mi_atomic_peek(&mi_atomic_peek(&arena->subproc)->sequence);
}

static void mi_account_print_arena(mi_account_map_t* map, const mi_arena_t* arena) {
  const size_t size = mi_arena_slices(arena) * MI_SLICE_SIZE;
  const size_t subproc = mi_account_arena_subproc(arena);
  char about[80] = "";
  size_t used = 0;
  if (subproc != 0) used = mi_text_format(about, sizeof(about), mi_account_subproc, subproc);
  const bool has[3] = {arena->is_pinned, arena->is_foreign, arena->is_exclusive};
  for (size_t i = 0; i < 3; i++) {
    if (has[i]) used = mi_text_append(about, sizeof(about), used, mi_account_flags[i]);
  }
  mi_output_print(map->sink, mi_account_arena, (const void*)arena->start, about,
                  mi_account_bytes(size).text, mi_account_bytes(map->slices * MI_SLICE_SIZE).text);
  map->line[MI_ACCOUNT_WIDTH] = 0;
  mi_account_each_run(arena, map->counts, &mi_account_map_run, map);
  mi_account_map_blank(map);
}

static size_t mi_account_arena_slices(void) {
  size_t sequence = SIZE_MAX;
  size_t count = 0;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) {
    MI_FOR_EACH_ARENA(subproc, arena) { count += mi_arena_slices(arena); }
  }
  return count;
}

static void mi_account_print_map(mi_sink_t sink, const mi_account_t* account) {
  mi_account_map_t map = {.sink = sink, .counts = account->counts, .slices = 1};
  const size_t count = mi_account_arena_slices();
  while (count / map.slices > MI_ACCOUNT_CELLS) map.slices *= 2;
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) {
    MI_FOR_EACH_ARENA(subproc, arena) { mi_account_print_arena(&map, arena); }
  }
  if (account->outside_pages > 0) {
    mi_output_print(sink, "Outside arenas: %zu blocks with mappings of their own, %s resident\n",
                    account->outside_pages, mi_account_bytes(account->outside).text);
  }
  if (count > 0) {
    mi_output_print(sink, "  (. : - = + * # more and more of it in use; f most of what is resident "
                          "is free, k kept; blank: nothing is)\n");
  }
}

// -- All --

void mi_explain(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_process_setup();
  const mi_sink_t sink = mi_output_sink(out, arg);
  mi_account_t account;
  mi_account_make(&account);
  mi_output_print(sink, "process %zu: libmimalloc %d.%d.%d\n\n", mi_os_process_number(),
                  MI_MALLOC_VERSION / 10000, MI_MALLOC_VERSION / 100 % 100,
                  MI_MALLOC_VERSION % 100);
  mi_account_print_whole(sink, &account);
  mi_account_print_parts(sink, &account);
  mi_account_print_notes(sink, &account);
  mi_account_print_sizes(sink, &account);
  mi_account_print_rows(sink, mi_account_heaps, &account.heaps, account.all.resident,
                        &mi_account_heap_name);
  mi_account_print_rows(sink, mi_account_threads, &account.threads, account.all.resident,
                        &mi_account_thread_name);
  mi_account_print_map(sink, &account);
  mi_account_done(&account);
  if (mi_profile_rate() != 0 || mi_sampled_next_site(NULL) != NULL) {
    mi_output_print(sink, "\n");
    mi_profile_print_leaks(out, arg);
  }
}
