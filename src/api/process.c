// SPDX-License-Identifier: MIT
// process.c - start and end of the process and of threads, collection, and the deferred-free
// callback.
//
//   loader  -> constructor -> mi_process_init -> core set-up, messages start, verbose report
//   exit    -> destructor  -> mi_process_done -> counts of errors, statistics
//   dlclose -> destructor  -> mi_process_done, mi_unload -> all memory goes back
//                             with option destroy_on_exit, mi_process_done does that
//
// PROCESS-1  each of these steps may happen late, never, or twice: malloc sets the process up by
//     itself, and works after the end.
// PROCESS-2  the user's deferred-free function is not entered again on the thread it runs on.
// PROCESS-3  the child of a vfork finds all that its parent has here, and changes it there: what it
//     does to itself before it runs another program, as giving up rights or entering a sandbox, is
//     no reason to end the purge thread of its parent, or to take that for a sandbox.
//
// Deliberately absent: what set-up and thread exit do (core/process/init.c, core/threads/thread.c).
#include "api.h"
#include "callback.h"
#include "../core/core.h"

// Any thread, relaxed: the thread that changes it first does the work; it publishes nothing else.
static mi_atomic(uint32_t) mi_process_is_started;
static mi_atomic(uint32_t) mi_process_is_ended;

static mi_callback_t mi_process_deferred_free;
// The heartbeat of the last call: the next call gets a higher one. Any thread, relaxed: only a
// count.
static mi_atomic(uint64_t) mi_process_heartbeat;

// When a thread of the program found no room because of the purge thread, which does not take it
// again for so long; 0 never, or that is over. Any thread, relaxed: a hint.
static mi_atomic(uint64_t) mi_process_full_ms;
#define MI_PROCESS_FULL_MS 1000

// True for exactly one caller.
static bool mi_process_once(mi_atomic(uint32_t) * flag) {
  uint32_t expected = 0;
  while (!mi_atomic_cas_weak_relaxed(flag, &expected, 1)) {
    if (expected != 0) return false;
  }
  return true;
}

static mi_attr_cold bool mi_process_was_full(uint64_t full_ms) {
  if (mi_os_now_ms() - full_ms < MI_PROCESS_FULL_MS) return true;
  mi_atomic_store_relaxed(&mi_process_full_ms, 0);
  return false;
}

MI_INTERNAL void mi_process_start_purger(void) {
  mi_fork_before_thread();
  const uint64_t full_ms = mi_atomic_load_relaxed(&mi_process_full_ms);
  if (mi_unlikely(full_ms != 0) && mi_process_was_full(full_ms)) return;
  if (mi_atomic_load_relaxed(&mi_process_is_ended) == 0 && mi_enter_home() != NULL)
    mi_purger_start();
}

void mi_process_init(void) mi_attr_noexcept {
  mi_process_setup();
  if (!mi_process_once(&mi_process_is_started)) return;
  mi_option_load_late();
  mi_start_output();
  mi_output_watch();
  mi_profile_begin();
  mi_control_begin();
  const bool is_controlled = mi_atomic_load_relaxed(&mi_state.control_ms) != 0;
  if (mi_option_value(purge_thread) == 1 || is_controlled) mi_process_start_purger();
  if (mi_output_is_verbose()) mi_options_print();
}

MI_INTERNAL bool mi_process_begin_join(void) { return mi_fork_pause(); }
MI_INTERNAL void mi_process_end_join(void) { mi_fork_resume(); }

MI_INTERNAL mi_attr_cold void mi_process_pause_join(void) {
  // Written by nobody, read by the system alone: the thread is not woken.
  mi_atomic(uint32_t) never = 0;
  mi_os_wait_ms(&never, 0, 1);
}

// True if there may be a purge thread, in this process: PROCESS-3.
static mi_attr_cold bool mi_process_has_purger(void) {
  return mi_atomic_load_relaxed(&mi_state.purger) != MI_PURGER_NONE && !mi_os_is_vfork_child();
}

MI_INTERNAL mi_attr_cold void mi_process_end_purger(void) {
  if (!mi_process_has_purger()) return;
  if (!mi_purger_stop(MI_PURGER_PATIENCE_MS)) mi_purger_forget_vanished();
}
MI_INTERNAL void mi_hook_last_thread(void) { mi_purger_stop(MI_PURGER_PATIENCE_MS); }
MI_INTERNAL void mi_hook_fork(void) { mi_process_setup(); }

// The kernel counts a thread for some microseconds after it was joined.
#define MI_PROCESS_TRIES 20

static mi_attr_cold bool mi_process_give_place(size_t* tries) {
  if (*tries == 0 && !mi_purger_stop(MI_PURGER_PATIENCE_MS)) return false;
  if (*tries > 0) mi_os_wait_ms(&mi_state.purger, MI_PURGER_NONE, 1);
  return (*tries)++ < MI_PROCESS_TRIES;
}

MI_INTERNAL mi_attr_cold bool mi_process_make_room(size_t* tries) {
  if (*tries == 0 && !mi_process_has_purger()) return false;
  return mi_process_give_place(tries);
}

MI_INTERNAL mi_attr_cold bool mi_process_make_room_for_thread(size_t* tries) {
  const bool is_first = *tries == 0;
  const bool is_again = mi_process_give_place(tries); // a sandbox may permit no other system call
  if (is_first && is_again) mi_atomic_store_relaxed(&mi_process_full_ms, mi_os_now_ms());
  return is_again;
}

MI_INTERNAL mi_attr_cold void mi_process_enter_sandbox(void) {
  if (mi_atomic_load_relaxed(&mi_state.is_sandboxed) || mi_os_is_vfork_child()) return;
  mi_process_setup();
  mi_budget_enter_sandbox();
}

static void mi_process_destroy(void) {
  // On Windows it is known when the program starts whether malloc is ours.
  if (MI_IS_OVERRIDE && (!MI_IS_WINDOWS || mi_is_redirected())) {
    mi_hook_verbose("destroy_on_exit: libc uses its memory until the end, nothing is given back\n");
  } else if (!mi_unload_alone()) {
    mi_hook_verbose("destroy_on_exit: other threads are running, nothing is given back\n");
  }
}

void mi_process_done(void) mi_attr_noexcept {
  mi_process_init();
  if (!mi_process_once(&mi_process_is_ended)) return;
  mi_purger_stop(MI_PURGER_PATIENCE_MS);
  mi_profile_end();
  // So the statistics show as in use only what the program kept.
  if (MI_IS_COLLECTED_ON_EXIT) mi_collect(true);
  mi_output_summary();
  if (mi_option_value(show_stats) != 0 || mi_output_is_verbose()) mi_stats_print_out(NULL, NULL);
  if (mi_option_value(destroy_on_exit) != 0) mi_process_destroy();
}

// Unit tests bring their own operating system and start by hand.
#if !defined(MI_UNIT_TEST)
// After those of C++ objects: a program or a library that contains us may free in these. (gcc
// forgets the priority if this is not said first.)
static mi_attr_last_destructor void mi_process_on_exit(void);

static void __attribute__((constructor)) mi_process_on_load(void) {
  mi_os_unload_watch(&mi_process_on_exit);
  mi_process_prepare();
  mi_fork_register(); // not by a malloc inside of pthread_atfork, which would wait for itself
  if (MI_DEFAULT_GUARDED_SAMPLE_RATE > 0 ||
      mi_os_environment_look(MI_ENVIRONMENT_PREFIX) != MI_OS_ENVIRONMENT_WITHOUT) {
    mi_process_init();
  } else {
    // There is no option to read and nothing to print: a program that never allocates is never set
    // up (which saves a third of what the library adds to the memory of an empty program). Nor is
    // the environment read later: what the program puts there is for its children, and at the end
    // of the process it may be gone.
    mi_process_once(&mi_process_is_started);
    mi_start_output();
  }
}

static void mi_process_on_exit(void) {
  const bool is_unloaded = mi_os_is_unloaded();
  if (mi_atomic_load_relaxed(&mi_state.stage) == MI_STAGE_NONE) return; // was never set up
  // With a lock held, a callback of the program ended the process from inside of the library.
  const bool is_inside = mi_self()->locks_held != 0;
  if (mi_option_value(destroy_on_exit) < 2 && !is_inside) {
    mi_process_done(); // otherwise the program calls it
  }
  // Threads that end from now on must not call into a library that may be gone.
  mi_os_thread_key_done();
  // This is not done at the end of the process, where other code still uses its blocks.
  if (is_unloaded) {
    mi_purger_stop(MI_PURGER_PATIENCE_UNLOAD_MS);
    mi_fault_stop();
    mi_unload();
  }
}
#endif

void mi_thread_init(void) mi_attr_noexcept {
  mi_process_setup();
  mi_enter_home();
}

void mi_thread_done(void) mi_attr_noexcept {
  if (mi_self()->is_in_deferred) { // a malloc that goes on with what the thread has
    mi_output_force_warning("a deferred free function cannot call mi_thread_done\n");
    return;
  }
  mi_thread_withdraw();
}

void mi_thread_set_in_threadpool(void) mi_attr_noexcept {
  mi_thread_init();
  mi_theap_t* const home = mi_self_home();
  if (home->thread_id != 0) home->is_in_threadpool = true;
}

void mi_collect(bool force) mi_attr_noexcept {
  const mi_effort_t effort = force ? MI_FORCE : MI_GENTLE;
  mi_hook_deferred_free(effort, 0); // one beat after the last
  if (force) mi_thread_sweep_ended();
  mi_collect_all(effort);
  if (force) mi_subproc_sweep();
}

MI_INTERNAL size_t mi_process_trim(void) { return mi_collect_all(MI_FORCE); }

int mi_thread_idle_due(void) mi_attr_noexcept {
  const uint64_t due_ms = mi_idle_due();
  return due_ms == MI_RETAIN_NEVER ? -1 : (int)mi_bits_min((size_t)due_ms, INT_MAX);
}

void mi_thread_idle(void) mi_attr_noexcept { mi_idle_rest(); }

void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept {
  (void)target_thread_owned;
  mi_collect(true);
}

void mi_register_deferred_free(mi_deferred_free_fun* deferred_free, void* arg) mi_attr_noexcept {
  if (MI_IS_SECURE) mi_process_setup(); // CALLBACK-3
  mi_callback_set(&mi_process_deferred_free, (mi_callback_fun_t*)deferred_free, arg);
}

static uint64_t mi_process_next_beat(uint64_t heartbeat) {
  uint64_t seen = mi_atomic_load_relaxed(&mi_process_heartbeat);
  uint64_t next;
  do {
    next = mi_bits_max(heartbeat, seen + 1);
  } while (!mi_atomic_cas_weak_relaxed(&mi_process_heartbeat, &seen, next));
  return next;
}

MI_INTERNAL void mi_hook_deferred_free(mi_effort_t effort, uint64_t heartbeat) {
  mi_lock_check_none("runs deferred frees");
  if (mi_self()->is_in_deferred) return;
  void* arg = NULL;
  mi_deferred_free_fun* const fun =
      (mi_deferred_free_fun*)mi_callback_get(&mi_process_deferred_free, &arg);
  if (fun == NULL) return;
  mi_self()->is_in_deferred = true;
  fun(effort == MI_FORCE, (unsigned long long)mi_process_next_beat(heartbeat), arg);
  mi_self()->is_in_deferred = false;
}

int mi_version(void) mi_attr_noexcept { return MI_MALLOC_VERSION; }
