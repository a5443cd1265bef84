// SPDX-License-Identifier: MIT
// purger.c - the purge thread: free memory goes back on time, although no thread allocates.
//
// Without it memory that waits goes back when some thread allocates or frees later (retain.c), so a
// program that frees much and then sleeps keeps what the bounds permit. The thread looks at the
// clock for it, as the slow path of malloc does; and it takes over what threads that sleep have in
// their queues (asleep.c).
//
//   mi_state.purger    NONE -> BUSY -> BORN -> AWAKE <-> ASLEEP -> STOP -> ENDED -> BUSY -> NONE
//                                              AWAKE <- STOP -> LATE -> ENDED
//                                                               LATE -> NONE
//
//   BUSY    a thread starts it, or has seen it end and joins it
//   BORN    it runs, and the thread that started it goes on
//   AWAKE   some memory waits, or a thread may fall asleep: it sleeps until that is due
//   ASLEEP  no memory waits that could go: it sleeps until the first thread that marks some, or
//           that has a page to take over, wakes it (mi_wait_notice), so that it does not wake an
//           idle machine
//   STOP    it is asked to end; it goes on if it is wanted again before it has (a program that
//           forks and then creates a thread)
//   LATE    somebody has waited for its end in vain: it ends later, or it is not there (PURGER-3)
//
// PURGER-1  a process whose program has only one thread has none. It is started when the program
//     creates a thread, just before that (override_thread.c), never inside malloc or free, because
//     creating one allocates. With option purge_thread 1 it is started with the library.
// PURGER-2  the thread is never in the program's way. It has all signals blocked, and a small
//     stack; it makes no system call but for memory and to sleep, so that no sandbox ends it (hence
//     it has no name: setting one needs prctl); it ends where a process must have one thread
//     (unshare, setns), where a thread of the program finds no room, at a fork if no other thread
//     allocates, at exit, and when the library is unloaded.
// PURGER-3  the child of a fork has none until it creates a thread itself. A child that was forked
//     without our handlers finds a state of its parent here; so nobody waits for the thread without
//     a limit of time, and only the first waits until that: then the state is LATE, which only the
//     thread itself leaves, or who knows that there is none. No system call tells that before: a
//     filter might end the process for it. LATE does not become AWAKE, or each thread that such a
//     child creates would bring back the wait.
// PURGER-4  the thread never allocates. Functions of the program that are called on it: those that
//     decommit memory of an arena (mi_manage_memory), and the error function, if the program has
//     damaged a page that is taken over.
// PURGER-5  who marks memory, or has a page to take over, and sees AWAKE need not wake the thread.
//     The thread may have looked before and gone to sleep just then; so its first sleep is for a
//     second, after which it looks once more.
// PURGER-6  the purge thread never keeps a process alive. A program whose last thread ends by
//     pthread_exit, or whose main thread does so before the others, is ended by libc when its last
//     thread has ended, and libc counts ours. So the thread is started only by a thread whose end
//     will be noticed, and ended with the last such thread (THREAD-7), which waits for it: then
//     libc runs the functions of atexit on a thread of the program. Threads that never allocated
//     are not noticed. If such a thread goes on alone, the purge thread is gone until the program
//     creates a thread again.
// PURGER-7  with MIMALLOC_CONTROL the thread looks for commands of the user, too (mi_hook_control).
//     Then it is started with the library, makes the system calls that this takes, sleeps no longer
//     than until its next look, and stays at a fork; for the rest it is what it is without.
// PURGER-8  chunks that become old (collapse.c) are no reason to be AWAKE, although they end a
//     sleep: who marks memory meanwhile wakes the thread, and need not wait for them.
// PURGER-9  a thread that shortens the delay wakes the purge thread, which may sleep until the end
//     of a long period. That may have looked before, and go to sleep just then; so it sleeps no
//     longer than MI_PURGER_LONG_MS while some memory waits.
// PURGER-10  while the thread purges memory, other threads start, end, and make and end heaps: it
//     holds the purge lock alone for memory of the main sub-process, which never ends, and for that
//     of another one also the lock under which none ends (SUBPROC-4). So who ends one waits until
//     what is due has gone, as it would for the purge lock.
//
// Deliberately absent: what threads have outside of their queues; only they may take it out.
#include "purger.h"

#define MI_PURGER_RECHECK_MS 1000 // PURGER-5
#define MI_PURGER_LONG_MS 60000 // PURGER-9
#define MI_PURGER_STEP_MS 20 // of a wait for another thread

// What a look at all sub-processes found.
typedef struct mi_purger_look_s {
  int64_t waiting; // bytes that still wait
  uint64_t next_ms; // until the next look
  uint64_t collapse_ms; // until the next one at old chunks
} mi_purger_look_t;

static void mi_purger_look_at(mi_subproc_t* subproc, mi_purger_look_t* look) {
  while (mi_pool_go_on(&subproc->heap_main)) continue;
  const uint64_t next_ms = mi_retain_tick(subproc);
  look->waiting += mi_atomic_load_relaxed(&subproc->purge_waiting) + mi_kept_count(subproc, NULL);
  if (next_ms < look->next_ms) look->next_ms = next_ms;
}

static mi_purger_look_t mi_purger_look(void) {
  mi_purger_look_t look = {.next_ms = MI_RETAIN_NEVER};
  mi_purger_look_at(&mi_state.main, &look);
  look.collapse_ms = mi_collapse_tick(&mi_state.main); // not of others: none can end meanwhile
  mi_lock_enter(&mi_state.subproc_lock); // PURGER-10
  mi_subproc_t* subproc = &mi_state.main;
  while ((subproc = mi_subproc_after(subproc)) != NULL) mi_purger_look_at(subproc, &look);
  mi_lock_leave(&mi_state.subproc_lock);
  return look;
}

MI_INTERNAL mi_attr_cold uint64_t mi_purger_tick(void) { return mi_purger_look().next_ms; }

static bool mi_purger_is(mi_purger_state_t state) {
  return mi_atomic_load_relaxed(&mi_state.purger) == (uint32_t)state;
}

// True if the thread, which has not ended, is to end.
static bool mi_purger_is_asked(void) {
  return mi_purger_is(MI_PURGER_STOP) || mi_purger_is(MI_PURGER_LATE);
}

// Go from one state to another. False if the thread was not in that state.
static bool mi_purger_turn(mi_purger_state_t from, mi_purger_state_t to) {
  uint32_t expected = from;
  // Sees what the thread did before it ended; pairs with the release in `mi_purger_end`.
  return mi_atomic_cas_strong_acquire(&mi_state.purger, &expected, to);
}

// Sleep until another thread marks memory, or chunks are old: PURGER-8. What waits does not go.
static void mi_purger_rest(const mi_purger_look_t* before) {
  if (!mi_purger_turn(MI_PURGER_AWAKE, MI_PURGER_ASLEEP)) return;
  mi_os_wait_ms(&mi_state.purger, MI_PURGER_ASLEEP, MI_PURGER_RECHECK_MS);
  const mi_purger_look_t look = mi_purger_look();
  if (look.waiting == before->waiting && !mi_asleep_is_due() &&
      mi_option_value(purge_thread) != 0) {
    const bool is_timed = look.collapse_ms != MI_RETAIN_NEVER;
    do {
      mi_os_wait_ms(&mi_state.purger, MI_PURGER_ASLEEP,
                    is_timed ? look.collapse_ms : MI_OS_FOREVER);
    } while (!is_timed && mi_purger_is(MI_PURGER_ASLEEP));
  }
  mi_purger_turn(MI_PURGER_ASLEEP, MI_PURGER_AWAKE);
}

// True if what waits has been the same for so long that it will not go: it is in runs that are too
// short for option minimal_purge_size.
static bool mi_purger_is_stuck(uint64_t same_since_ms) {
  return mi_os_now_ms() - same_since_ms > 2 * (uint64_t)mi_wait_delay_ms();
}

// Wait for the other thread at the start.
static void mi_purger_await(mi_purger_state_t state) {
  while (mi_purger_is(state)) mi_os_wait_ms(&mi_state.purger, state, MI_PURGER_STEP_MS);
}

// Sleep until something is due, at most for so long; if nothing is, until memory is marked.
static void mi_purger_sleep(const mi_purger_look_t* look, uint64_t same_since_ms,
                            uint64_t most_ms) {
  const bool is_idle = look->next_ms == MI_RETAIN_NEVER || mi_purger_is_stuck(same_since_ms);
  const uint64_t due_ms = is_idle || look->next_ms > most_ms ? most_ms : look->next_ms;
  if (due_ms == MI_RETAIN_NEVER) {
    mi_purger_rest(look);
  } else {
    mi_os_wait_ms(&mi_state.purger, MI_PURGER_AWAKE,
                  due_ms < MI_PURGER_LONG_MS ? due_ms : MI_PURGER_LONG_MS);
  }
}

// The thread is asked to end, or the option says so. False if it is wanted again.
static bool mi_purger_end(void) {
  mi_purger_turn(MI_PURGER_AWAKE, MI_PURGER_STOP);
  uint32_t expected = MI_PURGER_STOP;
  // Publishes all that the thread did; pairs with the acquire in `mi_purger_turn`.
  if (mi_atomic_cas_strong_release(&mi_state.purger, &expected, MI_PURGER_ENDED)) return true;
  expected = MI_PURGER_LATE;
  // Publishes the same; pairs with the acquire in `mi_purger_turn`.
  return mi_atomic_cas_strong_release(&mi_state.purger, &expected, MI_PURGER_ENDED);
}

MI_INTERNAL mi_attr_cold void mi_purger_follow_delay(void) {
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) mi_retain_shorten(subproc);
  mi_wait_notice();
  if (mi_purger_is(MI_PURGER_AWAKE)) mi_os_wake(&mi_state.purger); // PURGER-9
}

// What the thread does until it is asked to end.
static void mi_purger_work(void) {
  long delay_ms = 0;
  int64_t waiting = 0;
  uint64_t same_since_ms = 0;
  mi_asleep_t asleep = {0, false};
  while (!mi_purger_is_asked() && mi_option_value(purge_thread) != 0) {
    const uint32_t control_ms = mi_atomic_load_relaxed(&mi_state.control_ms);
    if (control_ms != 0) mi_hook_control();
    uint64_t most_ms = mi_asleep_look(&asleep);
    if (control_ms != 0 && control_ms < most_ms) most_ms = control_ms;
    const mi_purger_look_t look = mi_purger_look();
    const long now_delay_ms = mi_wait_delay_ms();
    if (look.waiting != waiting || now_delay_ms != delay_ms) same_since_ms = mi_os_now_ms();
    waiting = look.waiting;
    delay_ms = now_delay_ms;
    mi_purger_sleep(&look, same_since_ms, most_ms);
  }
}

static void mi_purger_run(void) {
  mi_thread_stay_absent();
  mi_purger_turn(MI_PURGER_BUSY, MI_PURGER_BORN);
  mi_os_wake(&mi_state.purger);
  mi_purger_await(MI_PURGER_BORN);
  do mi_purger_work();
  while (!mi_purger_end());
  mi_os_wake(&mi_state.purger);
}

MI_INTERNAL mi_attr_cold void mi_purger_start(void) {
  // Sees what set-up wrote; pairs with the release in `mi_init_end`.
  if (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) return;
  if (mi_option_value(purge_thread) == 0) return;
  if (!mi_thread_is_present()) return; // PURGER-6
  if (mi_purger_turn(MI_PURGER_STOP, MI_PURGER_AWAKE)) return;
  const bool has_ended = mi_purger_turn(MI_PURGER_ENDED, MI_PURGER_BUSY);
  if (!has_ended && !mi_purger_turn(MI_PURGER_NONE, MI_PURGER_BUSY)) return;
  if (has_ended) mi_os_thread_join(mi_state.purger_thread);
  const int err = mi_os_thread_start(&mi_state.purger_thread, &mi_purger_run);
  // What libc does at the start of a thread may be forbidden soon, by a filter for all threads.
  if (err == 0) {
    mi_purger_await(MI_PURGER_BUSY);
    mi_asleep_share(mi_self_home());
  }
  // Publishes the thread to the one that will join it; pairs with the acquire in `mi_purger_turn`.
  mi_atomic_store_release(&mi_state.purger, err == 0 ? MI_PURGER_AWAKE : MI_PURGER_NONE);
  mi_os_wake(&mi_state.purger);
}

MI_INTERNAL mi_attr_cold bool mi_purger_dismiss(void) {
  if (!mi_purger_turn(MI_PURGER_ASLEEP, MI_PURGER_STOP) &&
      !mi_purger_turn(MI_PURGER_AWAKE, MI_PURGER_STOP)) {
    return mi_atomic_load_relaxed(&mi_state.purger) >= MI_PURGER_STOP; // or LATE, or ENDED
  }
  mi_os_wake(&mi_state.purger);
  return true;
}

// Wait until the thread, which is asked to end, is gone.
static mi_attr_cold bool mi_purger_await_end(size_t patience_ms) {
  // PURGER-3
  if (mi_purger_is(MI_PURGER_LATE) && patience_ms <= MI_PURGER_PATIENCE_MS) return false;
  const uint64_t begin = mi_os_now_ms(); // not before: what reads it may be 64 KiB more of libc
  while (mi_purger_is_asked()) {
    const bool is_late = mi_purger_is(MI_PURGER_LATE);
    if (mi_os_now_ms() - begin > patience_ms) {
      if (is_late || mi_purger_turn(MI_PURGER_STOP, MI_PURGER_LATE)) return false;
      continue; // it has just ended, or is wanted again
    }
    const mi_purger_state_t state = is_late ? MI_PURGER_LATE : MI_PURGER_STOP;
    mi_os_wait_ms(&mi_state.purger, state, MI_PURGER_STEP_MS);
  }
  if (!mi_purger_turn(MI_PURGER_ENDED, MI_PURGER_BUSY)) return false;
  mi_os_thread_join(mi_state.purger_thread);
  // Pairs with none: what the thread did was seen when it was joined.
  mi_atomic_store_release(&mi_state.purger, MI_PURGER_NONE);
  return true;
}

MI_INTERNAL mi_attr_cold bool mi_purger_stop(size_t patience_ms) {
  return mi_purger_dismiss() && mi_purger_await_end(patience_ms);
}

MI_INTERNAL mi_attr_cold void mi_purger_forget_vanished(void) {
  if (!mi_purger_is(MI_PURGER_LATE) || mi_atomic_load_relaxed(&mi_state.is_sandboxed)) return;
  if (mi_os_is_alone()) mi_purger_turn(MI_PURGER_LATE, MI_PURGER_NONE);
}

MI_INTERNAL void mi_purger_forget(void) {
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_NONE);
}
