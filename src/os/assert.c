// SPDX-License-Identifier: MIT
// assert.c - handles a failed assertion of base/check.h: prints where it is, and ends the process.
// Also the checks of locks in debug builds (lock.h).
//
// The file is in this folder because it must print and stop without the layers above: it calls no
// output function of the user, allocates nothing, and waits for no lock.
#include "../base/text.h"
#include "os.h"

#include "lock.h"

#define MI_ASSERT_TEXT_MAX ((size_t)1024)

MI_INTERNAL void mi_assert_failed_about(const char* text, const char* file, int line,
                                        const char* function, const char* about) {
  char message[MI_ASSERT_TEXT_MAX];
  const size_t used = mi_text_format(
      message, sizeof(message), "mimalloc: assertion failed: at \"%s\":%d, %s\nassertion: \"%s\"\n",
      file, line, function, text);
  if (about != NULL) {
    mi_text_format(message + used, sizeof(message) - used, "concerns: %s\n", about);
  }
  mi_os_abort(message);
}

MI_INTERNAL void mi_assert_failed(const char* text, const char* file, int line,
                                  const char* function) {
  mi_assert_failed_about(text, file, line, function, NULL);
}

// -- Locks --

#if MI_DEBUG >= 1
static const char* mi_lock_name(const mi_lock_t* lock) {
  return lock != NULL && lock->name != NULL ? lock->name : "without a name";
}

// Return the lock of the highest rank that this thread holds, NULL if it holds none.
static const mi_lock_t* mi_lock_highest(void) {
  const mi_lock_t* highest = NULL;
  for (uint32_t rank = 0; rank < MI_LOCK_RANKS; rank++) {
    if ((mi_self()->locks_held >> rank & 1) != 0) highest = mi_self()->lock_of_rank[rank];
  }
  return highest;
}

MI_INTERNAL void mi_lock_note(const mi_lock_t* lock) { mi_self()->lock_of_rank[lock->rank] = lock; }

MI_INTERNAL void mi_lock_check_order(const mi_lock_t* lock) {
  mi_assert(lock->rank < MI_LOCK_RANKS);
  if (mi_self()->locks_held >> lock->rank == 0) return;
  const mi_lock_t* const held = mi_lock_highest();
  char message[MI_ASSERT_TEXT_MAX];
  mi_text_format(message, sizeof(message),
                 "mimalloc: lock order: waits for lock %s (rank %u) while it holds lock %s (rank "
                 "%u)\n",
                 mi_lock_name(lock), lock->rank, mi_lock_name(held), held->rank);
  mi_os_abort(message);
}

static void mi_lock_check(const mi_lock_t* lock, const char* what) {
  if ((mi_self()->locks_held >> lock->rank & 1) != 0 && mi_self()->lock_of_rank[lock->rank] == lock)
    return;
  const mi_lock_t* const held = mi_lock_highest();
  char message[MI_ASSERT_TEXT_MAX];
  mi_text_format(message, sizeof(message),
                 "mimalloc: lock order: %s lock %s, which it does not hold; it holds %s\n", what,
                 mi_lock_name(lock), held == NULL ? "none" : mi_lock_name(held));
  mi_os_abort(message);
}

MI_INTERNAL void mi_lock_check_held(const mi_lock_t* lock) { mi_lock_check(lock, "leaves"); }

MI_INTERNAL void mi_lock_expect(const mi_lock_t* lock) {
  if (!mi_lock_is_of_fork(lock)) mi_lock_check(lock, "needs");
}

MI_INTERNAL void mi_lock_check_none(const char* what) {
  if (mi_self()->locks_held == 0 || (mi_self()->locks_held & MI_LOCKS_OF_FORK) != 0) return;
  char message[MI_ASSERT_TEXT_MAX];
  mi_text_format(message, sizeof(message), "mimalloc: lock order: %s while it holds lock %s\n",
                 what, mi_lock_name(mi_lock_highest()));
  mi_os_abort(message);
}
#endif
