// SPDX-License-Identifier: MIT
// idle.c - a thread that is going to wait gives back what it does not use, because it says so.
//
//   the thread comes to a slow path -> 500 ms in which it does not -> due: its pages; then, in a
//                                                                     process without a purge
//                                                                     thread, what waits
//
// The bounds of retain.c and the purge thread (purger.c) do without the program's help, and there
// is memory that they cannot reach: what a process with one thread keeps when it sleeps, and the
// pages that a thread allocates from. The thread itself can give all of that back, at a moment when
// it has nothing else to do. Event loops of the program call this before they wait, or the library
// of src/idle/ does it for them.
//
// IDLE-1  what is due is found without a system call but for the clock, and without a lock: it may
//     be asked before each wait.
// IDLE-2  a thread works if its `hold` changes: it came to a slow path of malloc, or freed into a
//     page of its queues. (What malloc and free do in lists that are at hand gives nothing to
//     purge.) Without a purge thread a change of what waits counts, too: a large block was freed.
//     The half second begins when that is noticed.
// IDLE-3  a thread that has given its pages back is asked again only for what waits, and for that
//     during a few delays (option purge_delay) after it worked last. So it does not wake an idle
//     machine.
// IDLE-4  nothing is done within a malloc or free that a signal handler interrupted in its slow
//     path (`hold` is odd), or while a lock is held. Fast paths leave no trace: the caller must not
//     be a signal handler.
// IDLE-5  a thread that wakes now and then, and works little, takes up again each time a part of
//     what it gave back. If it came to slow paths less than MI_IDLE_FEW times since it last gave
//     pages back, it gives them back after twice the time, at most MI_IDLE_MS_MAX.
// IDLE-6  no call takes long because the heap is large: MI_THREAD_REST_PAGES get holes, then the
//     thread is asked once more, and can see in between whether it has something to do. (Releasing
//     what waits takes as long as it does in a slow malloc: 0.2 ms for a MiB.)
//
// Deliberately absent: what other threads hold (asleep.c); blocks of the quarantine.
#include "idle.h"

#include "purger.h"

#define MI_IDLE_MS ((uint32_t)(MI_IS_TINY ? 5 : 500))
#define MI_IDLE_MS_MAX (16 * MI_IDLE_MS) // IDLE-5
#define MI_IDLE_FEW ((uint32_t)256)
// More than a step of the clock: who waits so long is not asked to wait again.
#define MI_IDLE_STEP_MS 5
#define MI_IDLE_DELAYS 4 // IDLE-3: so many times the delay of a purge

// True if the purge thread gives back what waits.
static bool mi_idle_has_purger(void) {
  const uint32_t purger = mi_atomic_load_relaxed(&mi_state.purger);
  return purger != MI_PURGER_NONE && purger != MI_PURGER_LATE && purger != MI_PURGER_ENDED;
}

// Return the home of the calling thread if it may give memory back now (IDLE-4), or NULL.
static mi_theap_t* mi_idle_home(void) {
  mi_theap_t* const home = mi_self_home();
  if (home->thread_id == 0 || mi_self()->locks_held != 0) return NULL;
  if (mi_atomic_load_relaxed(&home->hold) % 2 != 0 || mi_wait_delay_ms() < 0) return NULL;
  return home;
}

// IDLE-5
static bool mi_idle_is_few(const mi_theap_t* home, uint32_t hold) {
  return (hold - home->rested_hold) / 2 <= MI_IDLE_FEW; // each time adds 2
}

// Return what changes when memory begins to wait, or is kept (kept.c), that this thread would have
// to give back.
static int64_t mi_idle_waiting(const mi_theap_t* home) {
  mi_subproc_t* const subproc = mi_theap_subproc(home);
  if (mi_idle_has_purger()) return 0;
  return mi_atomic_load_relaxed(&subproc->purge_waiting) + (mi_kept_has_any(subproc) ? 1 : 0);
}

// IDLE-2
static void mi_idle_note(mi_theap_t* home, uint64_t now) {
  const uint32_t hold = mi_atomic_load_relaxed(&home->hold);
  const int64_t waiting = mi_idle_waiting(home);
  const bool is_same = hold == home->idle_hold && waiting == home->idle_waiting;
  if (is_same && home->idle_due_ms != 0) return;
  if (home->idle_due_ms == 0 || !mi_idle_is_few(home, hold)) home->idle_wait_ms = MI_IDLE_MS;
  home->idle_hold = hold;
  home->idle_waiting = waiting;
  home->idle_since_ms = now;
  home->idle_due_ms = now + home->idle_wait_ms;
  home->is_rested = false;
}

// The thread gives its pages back, or some of them.
static void mi_idle_give(mi_theap_t* home) {
  const mi_hold_t hold = mi_hold_enter(home);
  mi_parcel_flush();
  mi_thread_sweep_ended();
  home->is_rested = mi_thread_rest(home);
  mi_kept_release(home);
  mi_hold_leave(home, hold);
  home->idle_hold = mi_atomic_load_relaxed(&home->hold); // this was no work
  if (!home->is_rested) return;
  if (mi_idle_is_few(home, home->idle_hold)) {
    home->idle_wait_ms = (uint32_t)mi_bits_min(2 * home->idle_wait_ms, MI_IDLE_MS_MAX);
  }
  home->rested_hold = home->idle_hold;
}

// Return when what waits is due again, after some of it went back, or MI_RETAIN_NEVER.
static uint64_t mi_idle_next_ms(const mi_theap_t* home) {
  const uint64_t wait_ms = mi_purger_tick();
  const uint64_t now = mi_os_now_ms();
  const uint64_t most_ms =
      home->idle_wait_ms + MI_IDLE_DELAYS * (uint64_t)mi_wait_delay_ms(); // IDLE-3
  if (wait_ms == MI_RETAIN_NEVER || now - home->idle_since_ms > most_ms) return MI_RETAIN_NEVER;
  return now + wait_ms;
}

MI_INTERNAL mi_attr_cold uint64_t mi_idle_due(void) {
  mi_theap_t* const home = mi_idle_home();
  if (home == NULL) return MI_RETAIN_NEVER;
  const uint64_t now = mi_os_now_ms();
  mi_idle_note(home, now);
  if (home->idle_due_ms == MI_RETAIN_NEVER) return MI_RETAIN_NEVER;
  return home->idle_due_ms > now ? home->idle_due_ms - now + MI_IDLE_STEP_MS : 0;
}

MI_INTERNAL mi_attr_cold void mi_idle_rest(void) {
  mi_theap_t* const home = mi_idle_home();
  if (home == NULL) return;
  mi_idle_note(home, mi_os_now_ms());
  if (!home->is_rested) mi_idle_give(home);
  if (!home->is_rested) { // IDLE-6
    home->idle_due_ms = mi_os_now_ms();
  } else if (mi_idle_has_purger()) {
    home->idle_due_ms = MI_RETAIN_NEVER;
  } else {
    home->idle_due_ms = mi_idle_next_ms(home);
  }
  home->idle_waiting = mi_idle_waiting(home); // nor was this
}
