// SPDX-License-Identifier: MIT
// puppet.c - see puppet.h.
#include "puppet.h"

#include <string.h>

#include "check.h"

static void* puppet_run(void* p) {
  puppet_t* const puppet = (puppet_t*)p;
  pthread_mutex_lock(&puppet->lock);
  while (!puppet->is_ended) {
    if (puppet->f != NULL) {
      puppet->f(puppet->arg);
      puppet->f = NULL;
      pthread_cond_broadcast(&puppet->change);
    }
    pthread_cond_wait(&puppet->change, &puppet->lock);
  }
  pthread_mutex_unlock(&puppet->lock);
  return NULL;
}

void puppet_start(puppet_t* puppet) {
  memset(puppet, 0, sizeof(*puppet));
  pthread_mutex_init(&puppet->lock, NULL);
  pthread_cond_init(&puppet->change, NULL);
  CHECK(pthread_create(&puppet->thread, NULL, &puppet_run, puppet) == 0);
}

void puppet_do(puppet_t* puppet, void (*f)(void* arg), void* arg) {
  pthread_mutex_lock(&puppet->lock);
  puppet->f = f;
  puppet->arg = arg;
  pthread_cond_broadcast(&puppet->change);
  while (puppet->f != NULL) pthread_cond_wait(&puppet->change, &puppet->lock);
  pthread_mutex_unlock(&puppet->lock);
}

void puppet_end(puppet_t* puppet) {
  pthread_mutex_lock(&puppet->lock);
  puppet->is_ended = true;
  pthread_cond_broadcast(&puppet->change);
  pthread_mutex_unlock(&puppet->lock);
  pthread_join(puppet->thread, NULL);
}

typedef struct puppet_request_s {
  size_t size;
  mi_heap_t* heap;
  void* p;
} puppet_request_t;

static void puppet_run_malloc(void* arg) {
  puppet_request_t* const request = (puppet_request_t*)arg;
  request->p = mi_malloc(request->size);
}

void* puppet_malloc(puppet_t* puppet, size_t size) {
  puppet_request_t request = {.size = size};
  puppet_do(puppet, &puppet_run_malloc, &request);
  return request.p;
}

static void puppet_run_heap_malloc(void* arg) {
  puppet_request_t* const request = (puppet_request_t*)arg;
  request->p = mi_heap_malloc(request->heap, request->size);
}

void* puppet_heap_malloc(puppet_t* puppet, mi_heap_t* heap, size_t size) {
  puppet_request_t request = {.size = size, .heap = heap};
  puppet_do(puppet, &puppet_run_heap_malloc, &request);
  return request.p;
}

void puppet_free(puppet_t* puppet, void* p) { puppet_do(puppet, &mi_free, p); }
