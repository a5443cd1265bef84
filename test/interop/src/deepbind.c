// A program, and libraries that it opens with RTLD_DEEPBIND: they see the names of the libraries
// they are linked with (libc) before those of the process. One source; PLUGIN, OPENER: a library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(PLUGIN)

// The program has one, too.
const char* whose_name(void) { return "the plug-in's"; }

const char* asked(void) { return whose_name(); }

void* plugin_malloc(size_t size) { return malloc(size); }

void plugin_free(void* p) { free(p); }

char* plugin_strdup(const char* text) { return strdup(text); }

#elif defined(OPENER)

// By the run path of this library, and into its namespace. Both the loader knows by who called.
int opened(const char* file, int flags) {
  void* library = dlopen(file, RTLD_NOW | flags);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 0;
  }
  Dl_info here;
  void* own = NULL;
  Lmid_t namespace_of_it = -2, own_namespace = -3;
  if (!dladdr((void*)opened, &here)) return 0;
  own = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  dlinfo(library, RTLD_DI_LMID, &namespace_of_it);
  if (own != NULL) dlinfo(own, RTLD_DI_LMID, &own_namespace);
  return namespace_of_it == own_namespace;
}

#else

const char* whose_name(void) { return "the program's"; }

static int failed(const char* what) {
  printf("%s: %s\n", what, dlerror());
  return 1;
}

// Blocks of all sizes go both ways.
static int pass_blocks(void* plugin) {
  void* (*plugin_malloc)(size_t) = (void* (*)(size_t))dlsym(plugin, "plugin_malloc");
  void (*plugin_free)(void*) = (void (*)(void*))dlsym(plugin, "plugin_free");
  char* (*plugin_strdup)(const char*) = (char* (*)(const char*))dlsym(plugin, "plugin_strdup");
  for (size_t size = 1; size < 10000000; size += 1 + size / 3) {
    plugin_free(memset(malloc(size), 1, size));
    free(realloc(plugin_malloc(size), size + size / 2));
    free(plugin_strdup("text"));
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  dlopen("no such library", RTLD_NOW | RTLD_DEEPBIND);
  if (dlerror() == NULL) return 3;
  const int is_apart = strcmp(argv[1], "apart") == 0;
  const int flags = RTLD_NOW | RTLD_DEEPBIND;
  void* library = is_apart                       ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)
                  : strcmp(argv[1], "base") == 0 ? dlmopen(LM_ID_BASE, argv[2], flags)
                                                 : dlopen(argv[2], flags);
  if (library == NULL) return failed(argv[2]);
  if (argc > 3) {
    int (*opened)(const char*, int) = (int (*)(const char*, int))dlsym(library, "opened");
    puts(opened(argv[3], is_apart ? 0 : RTLD_DEEPBIND) ? "done" : "elsewhere");
    return 0;
  }
  const char* (*asked)(void) = (const char* (*)(void))dlsym(library, "asked");
  if (strcmp(argv[1], "ask") == 0) return puts(asked()) < 0;
  pass_blocks(library);
  puts("done");
  return 0;
}

#endif
