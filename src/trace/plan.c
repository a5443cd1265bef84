// SPDX-License-Identifier: MIT
// plan.c - what a replay does: the operations of each thread, made of a trace before anything is
// replayed, and what the trace says of memory.
//
// PLAN-1  a block has a place in a table (a slot), which is used again when it is freed, by the
//     thread that freed it. So a thread that uses a slot has done all that was done with it, or
//     has waited for whoever did.
// PLAN-2  a thread waits only for operations that come before in the order of the trace; so no
//     threads wait for each other, whatever a damaged trace says.
// PLAN-3  what a trace says of blocks that are not there (of the parent, or lost) is left out.
// PLAN-4  a thread is started by the one that called last before its first call. When a thread
//     starts, those that had done their last call are ended: as many live as did in the program.
#include <unistd.h>

#include "../base/bits.h"
#include "plan.h"

#define MI_PLAN_NOBODY UINT32_MAX

// A slot, while planning.
typedef struct mi_plan_slot_s {
  uint64_t size;
  uint64_t op; // the last operation with the block, by `thread`
  uint32_t thread;
  uint32_t next; // in the list of unused ones, + 1
} mi_plan_slot_t;

// While planning.
typedef struct mi_plan_state_s {
  mi_plan_t* plan;
  mi_region_t slots; // mi_plan_slot_t
  mi_region_t ending; // uint32_t: threads that are done, and not joined
  uint32_t ending_count;
  uint32_t before; // the thread of the last record
} mi_plan_state_t;

static const char* const mi_plan_names[MI_PLAN_CALLS] = {
    "malloc",        "calloc",   "realloc",        "reallocarray", "free",
    "aligned_alloc", "memalign", "posix_memalign", "valloc",       "pvalloc"};

const char* mi_plan_call_name(size_t index) { return mi_plan_names[index]; }

size_t mi_plan_call_index(const mi_reader_record_t* record) {
  switch (record->call) {
    case MI_FORMAT_MALLOC:
      return 0;
    case MI_FORMAT_CALLOC:
      return 1;
    case MI_FORMAT_REALLOC:
      return 2;
    case MI_FORMAT_REALLOCARRAY:
      return 3;
    case MI_FORMAT_FREE:
      return 4;
    case MI_FORMAT_ALIGNED_ALLOC:
      return 5;
    case MI_FORMAT_MEMALIGN:
      return 6;
    case MI_FORMAT_POSIX_MEMALIGN:
      return 7;
    case MI_FORMAT_VALLOC:
      return 8;
    case MI_FORMAT_PVALLOC:
      return 9;
    default:
      return 10;
  }
}

static mi_plan_slot_t* mi_plan_slot(const mi_plan_state_t* state, uint32_t slot) {
  return (mi_plan_slot_t*)state->slots.start + slot;
}

static mi_plan_op_t* mi_plan_add(mi_plan_thread_t* t, mi_plan_kind_t kind, uint32_t slot,
                                 uint64_t size) {
  mi_region_grow(&t->ops, (t->op_count + 1) * sizeof(mi_plan_op_t));
  mi_plan_op_t* const op = (mi_plan_op_t*)t->ops.start + t->op_count++;
  *op = (mi_plan_op_t){.slot = slot, .kind = (uint8_t)kind, .size = size};
  return op;
}

// -- Threads --

static mi_plan_thread_t* mi_plan_reach(mi_plan_t* plan, uint32_t thread) {
  mi_region_grow(&plan->threads, ((uint64_t)thread + 1) * sizeof(mi_plan_thread_t));
  if (thread >= plan->thread_count) plan->thread_count = thread + 1;
  return mi_plan_thread(plan, thread);
}

// Have a thread wait until another has done so many operations.
static void mi_plan_await(mi_plan_t* plan, uint32_t thread, uint32_t other, uint64_t op_count) {
  ((mi_plan_op_t*)mi_plan_thread(plan, other)->ops.start)[op_count - 1].is_awaited = true;
  mi_plan_add(mi_plan_thread(plan, thread), MI_PLAN_WAIT, other, op_count);
}

// PLAN-4. Who ends a thread need not be the one that started it, and waits for its last operation.
static void mi_plan_start(mi_plan_state_t* state, uint32_t thread) {
  mi_plan_t* const plan = state->plan;
  mi_plan_thread_t* const t = mi_plan_thread(plan, thread);
  t->is_started = true;
  plan->started_count++;
  mi_plan_add(t, MI_PLAN_WAIT, thread, 0); // so that each thread has an operation: this is none
  if (state->before == MI_PLAN_NOBODY) {
    plan->first = thread;
    return;
  }
  const uint32_t starter = state->before;
  const uint32_t* const ending = (const uint32_t*)state->ending.start;
  uint32_t kept = MI_PLAN_NOBODY; // a thread does not wait for its own end
  for (uint32_t i = 0; i < state->ending_count; i++) {
    if (ending[i] == starter) {
      kept = ending[i];
      continue;
    }
    mi_plan_thread_t* const its = mi_plan_thread(plan, ending[i]);
    mi_plan_await(plan, starter, ending[i], its->op_count);
    mi_plan_add(mi_plan_thread(plan, starter), MI_PLAN_JOIN, ending[i], 0);
    its->is_joined = true;
  }
  state->ending_count = 0;
  if (kept != MI_PLAN_NOBODY) ((uint32_t*)state->ending.start)[state->ending_count++] = kept;
  mi_plan_add(mi_plan_thread(plan, starter), MI_PLAN_START, thread, 0);
}

static void mi_plan_note_end(mi_plan_state_t* state, const mi_reader_record_t* r) {
  mi_plan_thread_t* const t = mi_plan_thread(state->plan, r->thread);
  if (r->call == MI_FORMAT_END) t->is_ended = true;
  if (!r->is_last || !t->is_ended || r->thread == state->plan->first) return;
  t->is_done = true;
  mi_region_grow(&state->ending, ((uint64_t)state->ending_count + 1) * sizeof(uint32_t));
  ((uint32_t*)state->ending.start)[state->ending_count++] = r->thread;
}

// -- Blocks --

// Return the place where the slot of a block is kept, NULL if the trace does not have it.
static uint32_t* mi_plan_find(const mi_plan_state_t* state, const mi_reader_name_t* name) {
  if (name->kind != MI_READER_BLOCK || name->thread >= state->plan->thread_count) return NULL;
  mi_plan_thread_t* const t = mi_plan_thread(state->plan, name->thread);
  if (name->number >= t->slots.bytes / sizeof(uint32_t)) return NULL;
  uint32_t* const found = (uint32_t*)t->slots.start + name->number;
  return *found != 0 ? found : NULL;
}

static void mi_plan_change_live(mi_plan_t* plan, uint64_t added, uint64_t removed) {
  plan->live_bytes += added - removed;
  if (plan->live_bytes > plan->peak_bytes) plan->peak_bytes = plan->live_bytes;
}

// A thread is about to do something with a block: it waits for whoever did so last.
static void mi_plan_use(mi_plan_state_t* state, uint32_t thread, uint32_t slot) {
  const mi_plan_slot_t* const its = mi_plan_slot(state, slot);
  if (its->thread == thread) return;
  state->plan->crossing_count++;
  mi_plan_await(state->plan, thread, its->thread, its->op + 1);
}

static uint32_t mi_plan_take_slot(mi_plan_state_t* state, mi_plan_thread_t* t) {
  const uint32_t reused = t->unused;
  if (reused != 0) {
    t->unused = mi_plan_slot(state, reused - 1)->next;
    return reused - 1;
  }
  mi_region_grow(&state->slots, ((uint64_t)state->plan->slot_count + 1) * sizeof(mi_plan_slot_t));
  return state->plan->slot_count++;
}

// The block that a call of thread `r->thread` returned is in this slot.
static void mi_plan_name_block(const mi_plan_state_t* state, const mi_reader_record_t* r,
                               uint32_t slot, uint64_t size) {
  mi_plan_thread_t* const t = mi_plan_thread(state->plan, r->thread);
  mi_region_grow(&t->slots, (r->number + 1) * sizeof(uint32_t));
  ((uint32_t*)t->slots.start)[r->number] = slot + 1;
  mi_plan_slot_t* const its = mi_plan_slot(state, slot);
  its->size = size;
  its->thread = r->thread;
  its->op = t->op_count - 1;
}

static void mi_plan_allocate(mi_plan_state_t* state, const mi_reader_record_t* r,
                             mi_plan_kind_t kind, uint64_t alignment, uint64_t size) {
  mi_plan_t* const plan = state->plan;
  mi_plan_thread_t* const t = mi_plan_thread(plan, r->thread);
  const uint32_t slot = mi_plan_take_slot(state, t);
  mi_plan_add(t, kind, slot, size)->alignment_log2 =
      (uint8_t)(alignment <= 1 ? 0 : mi_bits_log2(alignment - 1) + 1);
  mi_plan_name_block(state, r, slot, size);
  if (++plan->live_blocks > plan->peak_blocks) plan->peak_blocks = plan->live_blocks;
  mi_plan_change_live(plan, size, 0);
}

static void mi_plan_free(mi_plan_state_t* state, const mi_reader_record_t* r) {
  mi_plan_t* const plan = state->plan;
  mi_plan_thread_t* const t = mi_plan_thread(plan, r->thread);
  if (r->block.kind == MI_READER_NULL) {
    mi_plan_add(t, MI_PLAN_FREE_NULL, 0, 0);
    return;
  }
  uint32_t* const found = mi_plan_find(state, &r->block);
  if (found == NULL) {
    plan->unknown_count++; // PLAN-3
    return;
  }
  const uint32_t slot = *found - 1;
  *found = 0;
  mi_plan_use(state, r->thread, slot);
  mi_plan_add(t, MI_PLAN_FREE, slot, 0);
  mi_plan_slot_t* const its = mi_plan_slot(state, slot);
  its->next = t->unused;
  t->unused = slot + 1; // PLAN-1
  plan->live_blocks--;
  mi_plan_change_live(plan, 0, its->size);
}

static void mi_plan_realloc(mi_plan_state_t* state, const mi_reader_record_t* r, uint64_t size) {
  mi_plan_t* const plan = state->plan;
  uint32_t* const found = mi_plan_find(state, &r->block);
  if (found == NULL) {
    if (r->block.kind != MI_READER_NULL) plan->unknown_count++;
    if (!r->has_failed) mi_plan_allocate(state, r, MI_PLAN_MALLOC, 0, size);
    return;
  }
  if (r->has_failed) { // a realloc to size 0 has freed the block
    if (size == 0) mi_plan_free(state, r);
    return;
  }
  const uint32_t slot = *found - 1;
  *found = 0;
  mi_plan_use(state, r->thread, slot);
  mi_plan_add(mi_plan_thread(plan, r->thread), MI_PLAN_REALLOC, slot, size);
  mi_plan_change_live(plan, size, mi_plan_slot(state, slot)->size);
  mi_plan_name_block(state, r, slot, size);
}

static void mi_plan_call(mi_plan_state_t* state, const mi_reader_record_t* r, uint64_t os_page) {
  const uint64_t size = r->count * r->size; // of a call that did not fail it does not overflow
  const bool is_aligned = r->alignment != 0;
  state->plan->requested_bytes += r->has_failed ? 0 : size;
  state->plan->failed_count += r->has_failed && !(size == 0 && r->block.kind == MI_READER_BLOCK);
  if (r->call == MI_FORMAT_FREE) {
    mi_plan_free(state, r);
  } else if (r->call == MI_FORMAT_REALLOC || r->call == MI_FORMAT_REALLOCARRAY) {
    mi_plan_realloc(state, r, size);
  } else if (r->has_failed) { // not done again
  } else if (r->call == MI_FORMAT_MALLOC) {
    mi_plan_allocate(state, r, MI_PLAN_MALLOC, 0, size);
  } else if (r->call == MI_FORMAT_CALLOC) {
    mi_plan_allocate(state, r, MI_PLAN_CALLOC, 0, size);
  } else if (r->call == MI_FORMAT_POSIX_MEMALIGN) {
    mi_plan_allocate(state, r, MI_PLAN_POSIX_MEMALIGN, r->alignment, size);
  } else if (r->call == MI_FORMAT_ALIGNED_ALLOC && is_aligned && size % r->alignment == 0) {
    // Some allocators take no other size; operator new does, which is recorded so.
    mi_plan_allocate(state, r, MI_PLAN_ALIGNED_ALLOC, r->alignment, size);
  } else {
    const bool is_of_pages = r->call == MI_FORMAT_VALLOC || r->call == MI_FORMAT_PVALLOC;
    const uint64_t alignment = is_aligned ? r->alignment : is_of_pages ? os_page : 1;
    mi_plan_allocate(state, r, MI_PLAN_MEMALIGN, alignment, size);
  }
}

// Mark what lives at the end, and give back what only planning needs.
static void mi_plan_finish(mi_plan_state_t* state) {
  mi_plan_t* const plan = state->plan;
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    mi_plan_thread_t* const t = mi_plan_thread(plan, i);
    for (size_t number = 0; number < t->slots.bytes / sizeof(uint32_t); number++) {
      const uint32_t slot = ((const uint32_t*)t->slots.start)[number];
      if (slot == 0) continue;
      const mi_plan_slot_t* const its = mi_plan_slot(state, slot - 1);
      ((mi_plan_op_t*)mi_plan_thread(plan, its->thread)->ops.start)[its->op].is_last = true;
    }
  }
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    mi_plan_thread_t* const t = mi_plan_thread(plan, i);
    // The first thread waits for all others.
    if (t->is_started) ((mi_plan_op_t*)t->ops.start)[t->op_count - 1].is_awaited = true;
    mi_region_trim(&t->slots, 0);
    mi_region_trim(&t->ops, t->op_count * sizeof(mi_plan_op_t));
  }
  mi_region_trim(&plan->threads, plan->thread_count * sizeof(mi_plan_thread_t));
  mi_region_trim(&state->slots, 0);
  mi_region_trim(&state->ending, 0);
}

bool mi_plan_make(mi_plan_t* plan, mi_reader_t* reader, uint64_t call_most) {
  *plan = (mi_plan_t){.first = 0};
  const uint64_t os_page = (uint64_t)sysconf(_SC_PAGESIZE);
  mi_plan_state_t state = {.plan = plan, .before = MI_PLAN_NOBODY};
  mi_reader_record_t r;
  while (plan->call_count < call_most && mi_reader_next(reader, &r)) {
    if (!mi_plan_reach(plan, r.thread)->is_started) mi_plan_start(&state, r.thread);
    if (r.call != MI_FORMAT_END) {
      plan->unseen_count += r.is_unseen;
      if (!r.is_unseen) {
        plan->call_count++;
        plan->calls[mi_plan_call_index(&r)]++;
      }
      mi_plan_call(&state, &r, os_page);
    }
    mi_plan_note_end(&state, &r);
    state.before = r.thread;
    if (r.time_us > plan->last_us) plan->last_us = r.time_us;
  }
  mi_plan_finish(&state);
  return reader->error[0] == 0;
}
