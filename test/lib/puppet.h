// SPDX-License-Identifier: MIT
// puppet.h - a thread that does one thing after the other, as it is told.
//
// What it does must not use cmocka, which knows one thread.
#ifndef TEST_PUPPET_H
#define TEST_PUPPET_H

#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct puppet_s {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t change;
  void (*f)(void* arg); // NULL: nothing to do
  void* arg;
  bool is_ended;
} puppet_t;

void puppet_start(puppet_t* puppet);

// It does `f(arg)`; returns when that is done.
void puppet_do(puppet_t* puppet, void (*f)(void* arg), void* arg);

// The thread ends.
void puppet_end(puppet_t* puppet);

// Short forms for what puppets do most.
void* puppet_malloc(puppet_t* puppet, size_t size);
void* puppet_heap_malloc(puppet_t* puppet, mi_heap_t* heap, size_t size);
void puppet_free(puppet_t* puppet, void* p);

#endif
