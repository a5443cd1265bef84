// SPDX-License-Identifier: MIT
// api_subproc.c - sub-processes: checks arguments and turns ids into structures
// (core/heaps/subproc.c).
//
// API_SUBPROC-1  an id is the address of the structure, which is never unmapped; NULL is no
//     sub-process.
#include "api.h"
#include "../core/core.h"

static mi_subproc_id_t mi_api_subproc_id(mi_subproc_t* subproc) {
  return (mi_subproc_id_t){subproc};
}

MI_INTERNAL mi_subproc_t* mi_api_subproc(mi_subproc_id_t id) {
  mi_process_setup();
  return (mi_subproc_t*)id._mi_subproc_id;
}

mi_subproc_id_t mi_subproc_main(void) mi_attr_noexcept {
  mi_process_setup();
  return mi_api_subproc_id(&mi_state.main);
}

mi_subproc_id_t mi_subproc_current(void) mi_attr_noexcept {
  mi_process_setup();
  return mi_api_subproc_id(mi_enter_current());
}

mi_subproc_id_t mi_subproc_new(void) mi_attr_noexcept {
  mi_process_setup();
  mi_subproc_t* const subproc = mi_subproc_make();
  if (subproc == NULL) mi_api_no_memory("subproc_new", sizeof(mi_subproc_t));
  return mi_api_subproc_id(subproc);
}

static bool mi_api_may_end_subproc(const mi_subproc_t* subproc) {
  return subproc != NULL && subproc != &mi_state.main;
}

static void mi_api_subproc_is_busy(const mi_subproc_t* subproc) {
  mi_output_force_warning("sub-process %zu has threads, or has ended: it cannot be ended\n",
                          subproc->sequence);
}

void mi_subproc_destroy(mi_subproc_id_t id) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (!mi_api_may_end_subproc(subproc)) return;
  if (!mi_subproc_end_by_destroy(subproc)) mi_api_subproc_is_busy(subproc);
}

void mi_subproc_delete(mi_subproc_id_t id) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (!mi_api_may_end_subproc(subproc)) return;
  if (!mi_subproc_end_by_delete(subproc)) mi_api_subproc_is_busy(subproc);
}

void mi_subproc_add_current_thread(mi_subproc_id_t id) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL) return;
  // A deferred free function is called by a malloc that goes on with what the thread has.
  if (!mi_self()->is_in_deferred && mi_enter_subproc(subproc)) return;
  mi_output_force_warning("the thread stays in sub-process %zu, it cannot join sub-process %zu\n",
                          mi_enter_current()->sequence, subproc->sequence);
}

bool mi_subproc_visit_heaps(mi_subproc_id_t id, mi_heap_visit_fun* visitor,
                            void* arg) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL || visitor == NULL) return false;
  mi_heap_cursor_t cursor = {0};
  while (mi_heap_next(subproc, &cursor)) {
    if (!visitor(cursor.heap, arg)) return false;
  }
  return true;
}
