// SPDX-License-Identifier: MIT
// guard.c - blocks between inaccessible OS pages: a write or read beyond their ends, or after they
// were freed, faults at once.
//
//   run of slices (large.c: a page of one block)
//   low    | guard: one OS page | block ............... slack | guard: up to the end |
//   high   | guard: one OS page | slack ........ block, slack | guard: up to the end |
//   freed  | guard ................................................................. |
//
// A record (common/guarded.c) says what is known about the block: where it is, who allocated and
// freed it, and from where. The page descriptor points to it while the block is in use.
//
// GUARD-1  guards need no mapping where the system can do that (mi_os_guard). Elsewhere they are
//     made by mappings, which are limited: there are at most MI_GUARD_MAPPED_MAX such blocks.
// GUARD-2  between alloc and free the block has its exact size: `block_size` of the page ends where
//     the block does, so that the usable size is what was asked for.
// GUARD-3  the slack, less than an OS page, has a pattern, which is checked by free. It is there if
//     the size is no multiple of the alignment, and in front of the guard that was not chosen.
// GUARD-4  at most MI_GUARD_LIVE_MAX blocks are in use with guards, unless each block is to have
//     them: then there is no bound but memory. A freed block is kept inaccessible until
//     MI_GUARD_HELD_MAX others were freed after it, or these have MI_GUARD_HELD_BYTES of addresses.
//     Its contents go back at once.
// GUARD-5  whoever exchanges an entry of the quarantine has the record that was there: no lock, and
//     no thread waits. The slices of a freed block belong to its record; the page is gone.
// GUARD-6  slices go back without guards, and count as dirty. If the system refuses to remove
//     guards, the slices are lost.
// GUARD-7  only blocks of the main sub-process are kept after free: another one may end meanwhile.
//
// Deliberately absent: which blocks get guards (sample.c), and what happens at a fault
// (observe/fault.c).
#include "guard.h"

#include "inside.h"
#include "pad.h"
#include "track.h"

#define MI_GUARD_LIVE_MAX ((int64_t)4096)
#define MI_GUARD_MAPPED_MAX ((int64_t)4096)
#define MI_GUARD_HELD_MAX ((size_t)256)
#define MI_GUARD_HELD_BYTES ((int64_t)(16 * MI_MIB))

static struct mi_guards_s {
  // live_count - blocks in use; mapped_count - blocks, in use or kept, whose guards are mappings;
  // held_bytes - of the runs in the quarantine; turn - blocks that ever entered it. Written and
  // read by any thread, relaxed: bounds, and the exchange of an entry decides.
  mi_atomic(int64_t) live_count;
  mi_atomic(int64_t) mapped_count;
  // has_markers - the system made a guard without a mapping. Any thread, relaxed: it stays true.
  mi_atomic(bool) has_markers;
  mi_atomic(int64_t) held_bytes;
  mi_atomic(size_t) turn;
  // held - the quarantine.
  //   write  any  swap acq_rel  enter, leave  mi_guard_exchange  (publishes a record, sees another)
  //   read   any  relaxed       how many, for tests
  mi_atomic(mi_guarded_t*) held[MI_GUARD_HELD_MAX];
} mi_guards mi_attr_sparse;

MI_INTERNAL size_t mi_guard_live(void) {
  return (size_t)mi_atomic_load_relaxed(&mi_guards.live_count);
}

MI_INTERNAL size_t mi_guard_held(void) {
  size_t count = 0;
  for (size_t i = 0; i < MI_GUARD_HELD_MAX; i++) {
    count += mi_atomic_load_relaxed(&mi_guards.held[i]) != NULL;
  }
  return count;
}

// -- Guards --

static bool mi_guard_try_close(mi_guarded_t* record, uint8_t* start, size_t size) {
  if (!record->is_mapped && mi_os_guard(start, size)) {
    mi_atomic_store_relaxed(&mi_guards.has_markers, true);
    return true;
  }
  if (!record->is_mapped) {
    if (mi_atomic_add_relaxed(&mi_guards.mapped_count, 1) >= MI_GUARD_MAPPED_MAX) {
      mi_atomic_sub_relaxed(&mi_guards.mapped_count, 1);
      return false;
    }
    record->is_mapped = true;
  }
  return mi_os_decommit(start, size) == 0;
}

// Make a range of a block's run inaccessible, and so give its contents back. False if the system
// cannot, or may not: GUARD-1.
static bool mi_guard_close(mi_guarded_t* record, mi_arena_t* arena, uint8_t* start, size_t size) {
  if (size == 0) return true;
  if (!mi_guard_try_close(record, start, size)) return false;
  if (arena != NULL) mi_charge_drop(arena, start, size);
  return true;
}

// Make the whole run accessible; it reads as zero where it was not. False if the system refuses.
static bool mi_guard_open(mi_guarded_t* record) {
  const size_t size = record->slice_count * MI_SLICE_SIZE;
  bool is_open = mi_os_unguard(record->start, size);
  if (is_open && !record->is_mapped) return true;
  if (record->is_mapped) {
    mi_atomic_sub_relaxed(&mi_guards.mapped_count, 1);
    // Where the system refuses to take guards away that it once made (a filter of system calls),
    // some of them may be in the run: a new mapping has none.
    const bool may_be = !is_open && mi_atomic_load_relaxed(&mi_guards.has_markers);
    is_open = !may_be && mi_os_commit(record->start, size) == 0;
  }
  is_open = is_open || mi_os_remap(record->start, size) == 0;
  mi_arena_advise(record->start, size); // as around it; RUN-3
  return is_open;
}

// -- Allocation --

// Lay out the run: where in it the OS pages of the block are, and where in these the block is.
static void mi_guard_lay_out(mi_guarded_t* record, const mi_guard_plan_t* plan) {
  const size_t page_size = mi_state.os.page_size;
  const size_t front = mi_bits_max(page_size, plan->alignment);
  record->size = plan->size;
  record->inner_size = mi_bits_align_up(plan->size, page_size);
  record->alignment = mi_bits_max(plan->alignment, MI_SLICE_SIZE);
  record->slice_count = mi_bits_divide_up(front + record->inner_size + page_size, MI_SLICE_SIZE);
  size_t shift = front;
  if (!plan->is_low && plan->alignment <= page_size) {
    shift = mi_bits_align_down(front + record->inner_size - plan->size, plan->alignment);
  }
  // Relative to the start of the run, which is not known yet.
  record->inner = (uint8_t*)front;
  record->p = (uint8_t*)shift;
}

static void mi_guard_fill_slack(const mi_guarded_t* record) {
  mi_pad_fill(record->inner, record->p, MI_PAD_AROUND);
  mi_pad_fill(record->p + record->size, record->inner + record->inner_size, MI_PAD_AROUND);
}

static void mi_guard_forget(mi_guarded_t* record) {
  mi_atomic_sub_relaxed(&mi_guards.live_count, 1);
  mi_guarded_release(record);
}

// Make the run inaccessible around the block. False if that cannot be done; then all of it is
// accessible.
static bool mi_guard_surround(mi_page_t* page, mi_guarded_t* record) {
  uint8_t* const behind = record->inner + record->inner_size;
  uint8_t* const end = record->start + record->slice_count * MI_SLICE_SIZE;
  // A fresh mapping would not be bound to a NUMA node.
  const mi_arena_t* const arena = page->arena;
  if (arena != NULL && (!mi_arena_is_mapped_by_us(arena) || arena->numa_node >= 0)) return false;
  // With overcommit only the program makes such arenas, of a size that has no room for guards.
  if (arena != NULL && !arena->is_committed && mi_state.os.has_overcommit) return false;
  page->is_charged = false; // not all of it
  if (mi_guard_close(record, page->arena, record->start, (size_t)(record->inner - record->start)) &&
      mi_guard_close(record, page->arena, behind, (size_t)(end - behind))) {
    return true;
  }
  mi_guard_open(record);
  return false;
}

static mi_page_t* mi_guard_make(mi_heap_t* heap, mi_guarded_t* record) {
  const size_t shift = (size_t)record->p;
  const mi_large_plan_t plan = {
      .size = shift + record->size,
      .room = record->slice_count * MI_SLICE_SIZE,
      .alignment = record->alignment,
      .shift = shift,
      .guarded = record,
  };
  mi_page_t* const page = mi_large_make(heap, &plan);
  if (page == NULL) return NULL;
  mi_assert(page->slice_count == record->slice_count);
  record->start = page->start;
  record->inner = page->start + (size_t)record->inner;
  record->p = page->start + shift;
  record->backing = page->backing;
  record->is_mapped = false;
  if (mi_guard_surround(page, record)) return page;
  mi_large_end(page, 0);
  return NULL;
}

MI_INTERNAL mi_attr_cold void* mi_guard_alloc(mi_heap_t* heap, const mi_guard_plan_t* plan) {
  if (MI_IS_TRACK_ASAN || MI_IS_TRACK_VALGRIND) return NULL; // tools do it better
  if (plan->size > MI_REQUEST_MAX / 2 || plan->alignment > MI_SLICE_SIZE) return NULL;
  const int64_t live = mi_atomic_add_relaxed(&mi_guards.live_count, 1);
  mi_guarded_t* const record =
      plan->is_bounded && live >= MI_GUARD_LIVE_MAX ? NULL : mi_guarded_claim();
  if (record == NULL) {
    mi_atomic_sub_relaxed(&mi_guards.live_count, 1);
    return NULL;
  }
  mi_guard_lay_out(record, plan);
  mi_page_t* const page = mi_guard_make(heap, record);
  if (page == NULL) {
    mi_guard_forget(record);
    return NULL;
  }
  if (plan->fill == MI_ZERO && !page->is_zero) mi_large_clear(page, record->p, record->size);
  mi_guard_fill_slack(record);
  record->heap_sequence = heap->sequence;
  record->allocated_by = mi_tls_thread_id();
  record->freed_by = 0;
  mi_hook_stack(record->allocated_at, MI_GUARD_FRAMES);
  record->freed_at[0] = NULL;
  // Publishes the record; pairs with the acquire in `mi_guarded_find`.
  mi_atomic_store_release(&record->record.state, MI_GUARD_LIVE);
  mi_tally_add(&heap->tally, MI_TALLY_GUARDED, 1);
  return record->p;
}

// -- Free --

// Look for a write into the slack: GUARD-3.
static void mi_guard_check(const mi_guarded_t* record) {
  const uint8_t* const end = record->p + record->size;
  const uint8_t* const inner_end = record->inner + record->inner_size;
  const uint8_t* const above = mi_pad_first(end, inner_end, MI_PAD_AROUND);
  if (above != NULL) {
    mi_report_write(MI_ERROR_OVERFLOW, "free", record->p, record->size, above,
                    (size_t)(inner_end - above));
  }
  if (mi_pad_first(record->inner, record->p, MI_PAD_AROUND) != NULL) {
    const uint8_t* const below = mi_pad_last(record->inner, record->p, MI_PAD_AROUND);
    mi_report_write(MI_ERROR_UNDERFLOW, "free", record->p, record->size, below,
                    (size_t)(record->p - below));
  }
}

// End the life of a record whose page is gone; its run goes back if `is_open`.
static void mi_guard_end(mi_guarded_t* record, mi_heap_t* heap, bool is_open) {
  if (is_open) {
    mi_arena_t* const arena = mi_run_arena(heap, (mi_page_backing_t)record->backing, record->start);
    mi_run_release(heap, arena, record->start, record->slice_count, record->alignment);
    if (mi_retain_bound(heap->subproc)) mi_self_hurry();
  }
  mi_guarded_release(record);
}

// Give back the memory of a block that was taken out of the quarantine.
static void mi_guard_drop(mi_guarded_t* record) {
  if (record == NULL) return;
  const size_t size = record->slice_count * MI_SLICE_SIZE;
  mi_atomic_sub_relaxed(&mi_guards.held_bytes, (int64_t)size);
  mi_guard_end(record, MI_HEAP_FIRST, mi_guard_open(record)); // GUARD-6
}

static mi_guarded_t* mi_guard_exchange(size_t turn, mi_guarded_t* record) {
  // Publishes the record, and sees the old one; pairs with itself, `mi_guard_exchange`.
  return mi_atomic_swap_acq_rel(&mi_guards.held[turn % MI_GUARD_HELD_MAX], record);
}

// Keep a freed block, and let the oldest ones go: GUARD-4.
static void mi_guard_hold(mi_guarded_t* record) {
  const int64_t size = (int64_t)(record->slice_count * MI_SLICE_SIZE);
  const size_t turn = mi_atomic_add_relaxed(&mi_guards.turn, 1);
  int64_t bytes = mi_atomic_add_relaxed(&mi_guards.held_bytes, size) + size;
  mi_guard_drop(mi_guard_exchange(turn, record));
  for (size_t k = 1; bytes > MI_GUARD_HELD_BYTES && k < MI_GUARD_HELD_MAX; k++) {
    mi_guard_drop(mi_guard_exchange(turn + k, NULL));
    bytes = mi_atomic_load_relaxed(&mi_guards.held_bytes);
  }
}

MI_INTERNAL mi_attr_cold void mi_guard_flush(void) {
  if (mi_atomic_load_relaxed(&mi_guards.held_bytes) == 0) return;
  for (size_t i = 0; i < MI_GUARD_HELD_MAX; i++) mi_guard_drop(mi_guard_exchange(i, NULL));
}

static mi_attr_cold void mi_guard_free_record(mi_page_t* page, mi_guarded_t* record) {
  uint32_t state = MI_GUARD_LIVE;
  // Pairs with the release in `mi_guard_alloc`, and publishes what this thread did with the block.
  if (!mi_atomic_cas_strong_acq_rel(&record->record.state, &state, MI_GUARD_FREED)) {
    mi_report(MI_ERROR_DOUBLE_FREE, "free", record->p, record->size);
    return;
  }
  mi_guard_check(record);
  record->freed_by = mi_tls_thread_id();
  mi_hook_stack(record->freed_at, MI_GUARD_FRAMES);
  mi_atomic_sub_relaxed(&mi_guards.live_count, 1);
  const size_t size = record->slice_count * MI_SLICE_SIZE;
  mi_heap_t* const heap = mi_inside_enter(page);
  const bool is_kept = heap->subproc == &mi_state.main && size <= (size_t)MI_GUARD_HELD_BYTES &&
                       mi_guard_close(record, page->arena, record->inner, record->inner_size);
  mi_large_end(page, page->slice_count); // the slices stay ours
  if (is_kept) {
    mi_guard_hold(record);
  } else {
    mi_guard_end(record, heap, mi_guard_open(record));
  }
  mi_inside_leave(heap);
}

MI_INTERNAL void mi_guard_free(mi_page_t* page, void* p) {
  if (mi_likely(page->guarded == NULL)) {
    mi_large_free(page, p);
    return;
  }
  mi_guarded_t* const record = page->guarded;
  if (p != record->p) {
    mi_report(MI_ERROR_INTERIOR_POINTER, "free", p, record->size);
    return;
  }
  mi_track_drop(page);
  mi_guard_free_record(page, record);
}

MI_INTERNAL void mi_guard_done(void) { memset(&mi_guards, 0, sizeof(mi_guards)); }
