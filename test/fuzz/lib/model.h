// SPDX-License-Identifier: MIT
// model.h - the model that calls.c compares the library with: which blocks, heaps and threads there
// are, what every block must be (test/lib/shadow.h), and when a call may fail.
#ifndef TEST_FUZZ_MODEL_H
#define TEST_FUZZ_MODEL_H

#include "fuzz.h"
#include "shadow.h"
#include "unit.h"

#define BLOCK_COUNT 128
#define HEAP_COUNT 6 // besides the main heaps
#define SUBPROC_COUNT 3 // with the main one
#define ACTOR_COUNT 3 // actor 0 is the thread of the fuzzer
#define ARENA_COUNT 2

// The heap of a block. The first ones are the main heaps, numbered as the sub-processes.
#define HOME_COUNT (SUBPROC_COUNT + HEAP_COUNT)
#define HOME_UNKNOWN SIZE_MAX // of a sub-process that was deleted

typedef struct home_s {
  mi_heap_t* heap; // NULL: there is none
  size_t subproc;
  bool is_bounded; // its arena may be full
} home_t;

typedef struct actor_s {
  puppet_t puppet; // of actors above 0
  bool is_running;
  size_t subproc; // which the thread is in
} actor_t;

// What an input has done so far.
typedef struct model_s {
  fuzz_input_t in;
  size_t actor; // who does the step
  shadow_t block[BLOCK_COUNT]; // deferred: freed by the deferred-free function
  home_t home[HOME_COUNT];
  mi_subproc_id_t subproc[SUBPROC_COUNT];
  actor_t actors[ACTOR_COUNT];
  size_t live; // bytes of all blocks
  size_t log_seen; // entries of the system's log before the call
  bool is_scarce; // memory may be refused at any time
  bool has_failed; // the system refused something, ever
  size_t misuses; // reports that were asked for and did not come yet
  mi_arena_id_t arena[ARENA_COUNT];
  size_t foreign; // bytes that the program brought along
  uint64_t next_pattern;
} model_t;

extern model_t fuzz;
extern bool is_traced; // MI_FUZZ_TRACE=1 shows what an input does

// Before a call that may give no block, and after it: whether it gave one. If not there was a
// reason, and errno says so.
void start_call(void);
bool is_block(const void* p, size_t home);

// Whether the system refused something since its log had so many entries.
bool is_refused_since(size_t seen);

// A block was just allocated or resized, and `kept` bytes of the pattern must be in it: what is
// promised holds. Then everything that may be written is.
void accept_block(shadow_t* b, size_t kept);

// It is as it was left, and where it was.
void check_block(const shadow_t* b);

// From a place that the input says. NULL: there is none.
shadow_t* unused_block(void);
shadow_t* used_block(void); // that the step may change

#endif
