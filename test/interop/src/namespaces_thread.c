// SPDX-License-Identifier: MIT
// namespaces_thread.c - a library in another linker namespace, which makes the thread that
// namespaces.c asks for with the libc of that namespace. As an audit library it hands its functions
// to the program before main.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

typedef int start_t(pthread_t* thread, void* (*run)(void*));
typedef int join_t(pthread_t thread);

int namespaces_start(pthread_t* thread, void* (*run)(void*));
int namespaces_start(pthread_t* thread, void* (*run)(void*)) {
  return pthread_create(thread, NULL, run, NULL);
}

int namespaces_join(pthread_t thread);
int namespaces_join(pthread_t thread) { return pthread_join(thread, NULL); }

unsigned int la_version(unsigned int version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static struct link_map* program;

unsigned int la_objopen(struct link_map* map, Lmid_t lmid, uintptr_t* cookie) {
  (void)cookie;
  if (program == NULL && lmid == LM_ID_BASE) program = map; // the first one
  return 0;
}

// All is mapped: the dynamic symbols of the program have `namespaces_offer`.
static void* program_symbol(const char* name) {
  const ElfW(Sym)* symbols = NULL;
  const char* strings = NULL;
  for (const ElfW(Dyn)* d = program->l_ld; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym)*)d->d_un.d_ptr;
    if (d->d_tag == DT_STRTAB) strings = (const char*)d->d_un.d_ptr;
  }
  // The table of strings follows that of symbols.
  for (const ElfW(Sym)* s = symbols; (const char*)s < strings; s++) {
    if (strcmp(strings + s->st_name, name) == 0) return (void*)(program->l_addr + s->st_value);
  }
  return NULL;
}

void la_preinit(uintptr_t* cookie) {
  (void)cookie;
  void (*const offer)(start_t*, join_t*) =
      (void (*)(start_t*, join_t*))program_symbol("namespaces_offer");
  if (offer != NULL) offer(&namespaces_start, &namespaces_join);
}
