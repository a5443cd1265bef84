// SPDX-License-Identifier: MIT
// runtime.c - a language's run-time that embeds a private copy of the library, and whose garbage
// collector finds all objects by walking its heaps, as that of CPython without the GIL does:
//
//   cc -O2 -DMI_PREFIX=rt_ -Iinclude demo/runtime.c src/static.c -pthread -o runtime
//
// With MI_PREFIX every name of the library starts with rt_ in the program, here and in static.c, so
// that it meets no other copy; malloc of the program stays what it is. An object has no link to
// others that the collector would need: that there is an object at an address is known from the
// heap. Objects of a thread that ended stay in the heap of its interpreter.
//
//   interpreter   objects   a heap of structures that refer to others: walked by the collector
//                 names     a heap of text, which refers to nothing: never walked
//
// Each round threads make trees and drop most of them. The collector marks what can be reached, and
// frees the rest. Prints what it found, and ends with 1 if that is not what was made.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mimalloc.h>

enum { INTERPRETERS = 4, ROUNDS = 3, TREES = 900, KEPT = 9, DEPTH = 6 }; // one tree in KEPT is kept
enum { NODES = (1 << DEPTH) - 1 }; // of a tree

typedef struct object_s {
  struct object_s* left;
  struct object_s* right;
  char* name; // NULL, or in the other heap
  bool is_marked;
} object_t;

typedef struct interpreter_s {
  mi_heap_t* objects;
  mi_heap_t* names;
  object_t* roots[ROUNDS * (TREES / KEPT)];
  size_t root_count;
  pthread_t thread;
} interpreter_t;

static void* need(void* p) {
  if (p != NULL) return p;
  fputs("runtime: out of memory\n", stderr);
  exit(2);
}

// -- The program that runs --

static object_t* make_tree(interpreter_t* in, int depth) {
  if (depth == 0) return NULL;
  object_t* const object = need(mi_heap_zalloc(in->objects, sizeof(object_t)));
  object->name = need(mi_heap_strdup(in->names, "the name of a node"));
  object->left = make_tree(in, depth - 1);
  object->right = make_tree(in, depth - 1);
  return object;
}

static void* run(void* argument) {
  interpreter_t* const in = argument;
  for (int i = 0; i < TREES; i++) {
    object_t* const tree = make_tree(in, DEPTH);
    if (i % KEPT == 0) in->roots[in->root_count++] = tree;
  }
  return NULL;
}

// -- The collector: no thread of the interpreter runs meanwhile --

static size_t mark(object_t* object) {
  if (object == NULL || object->is_marked) return 0;
  object->is_marked = true;
  return 1 + mark(object->left) + mark(object->right);
}

typedef struct sweep_s {
  size_t seen; // objects in the heap
  size_t bytes; // that its areas take
  object_t* dead; // a list by `left`
} sweep_t;

// A visitor must not free: the dead become a list.
static bool sweep_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                        size_t block_size, void* argument) {
  (void)heap, (void)block_size;
  sweep_t* const sweep = argument;
  if (block == NULL) {
    sweep->bytes += area->committed;
    return true;
  }
  object_t* const object = block;
  sweep->seen++;
  if (!object->is_marked) {
    object->left = sweep->dead;
    sweep->dead = object;
  }
  object->is_marked = false;
  return true;
}

// Free what cannot be reached. Returns the objects that were there, and stores how many are left.
static sweep_t collect(interpreter_t* in, size_t* alive) {
  *alive = 0;
  for (size_t i = 0; i < in->root_count; i++) *alive += mark(in->roots[i]);
  sweep_t sweep = {0};
  mi_heap_visit_blocks(in->objects, true, &sweep_block, &sweep);
  for (object_t* object = sweep.dead; object != NULL;) {
    object_t* const next = object->left;
    mi_free(object->name);
    mi_free(object);
    object = next;
  }
  return sweep;
}

int main(void) {
  static interpreter_t interpreters[INTERPRETERS];
  bool is_right = true;
  for (int i = 0; i < INTERPRETERS; i++) {
    interpreters[i].objects = need(mi_heap_new());
    interpreters[i].names = need(mi_heap_new());
  }
  for (size_t round = 1; round <= ROUNDS; round++) {
    for (int i = 0; i < INTERPRETERS; i++) {
      if (pthread_create(&interpreters[i].thread, NULL, &run, &interpreters[i]) != 0) return 2;
    }
    size_t seen = 0, left = 0, bytes = 0;
    for (int i = 0; i < INTERPRETERS; i++) {
      pthread_join(interpreters[i].thread, NULL);
      size_t alive;
      const sweep_t sweep = collect(&interpreters[i], &alive);
      const size_t kept = (size_t)NODES * (TREES / KEPT);
      is_right = is_right && alive == round * kept &&
                 sweep.seen == (size_t)NODES * TREES + (round - 1) * kept;
      seen += sweep.seen, left += alive, bytes += sweep.bytes;
    }
    printf("round %zu: %zu objects in %zu KiB, %zu left\n", round, seen, bytes / 1024, left);
  }
  for (int i = 0; i < INTERPRETERS; i++) { // all that is left, at once
    mi_heap_destroy(interpreters[i].objects);
    mi_heap_destroy(interpreters[i].names);
  }
  puts(is_right ? "right" : "wrong");
  return is_right ? 0 : 1;
}
