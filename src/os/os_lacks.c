// SPDX-License-Identifier: MIT
// os_lacks.c - the part of os.h that a system may lack, as it is where all of that is missing:
// huge pages, moved memory, memory of a NUMA node, a list of what is mapped, what is resident,
// limits of containers, folders for commands, the child of a vfork. (What Windows has, and the
// other systems that use this file lack, is in os_bare.c.)
//
// Each function says that it cannot do it; os.h says what that costs. A system that has one of
// these has a file of its own.
#include <errno.h>

#include "os.h"

static int mi_os_lacks(const void* start, size_t size) {
  (void)start;
  (void)size;
  return ENOSYS;
}

MI_INTERNAL int mi_os_populate(void* start, size_t size) { return mi_os_lacks(start, size); }

MI_INTERNAL int mi_os_populate_huge(void* start, size_t size) { return mi_os_lacks(start, size); }

MI_INTERNAL bool mi_os_has_huge_pages(void) { return false; }

MI_INTERNAL int mi_os_collapse(void* start, size_t size) { return mi_os_lacks(start, size); }

MI_INTERNAL bool mi_os_is_nonzero(const void* word) {
  return mi_os_lacks(word, sizeof(uint32_t)) == 0;
}

MI_INTERNAL int mi_os_split(void* start, size_t size) { return mi_os_lacks(start, size); }

MI_INTERNAL int mi_os_huge_pages(void* start, size_t size, mi_os_pages_t pages) {
  (void)pages;
  return mi_os_lacks(start, size);
}

MI_INTERNAL int mi_os_move(void* from, void* to, size_t size) {
  (void)from;
  return mi_os_lacks(to, size);
}

MI_INTERNAL bool mi_os_map_again(void* start, size_t size) { return mi_os_lacks(start, size) == 0; }

MI_INTERNAL int mi_os_prefer_node(void* start, size_t size, size_t node) {
  (void)node;
  return mi_os_lacks(start, size);
}

MI_INTERNAL bool mi_os_mappings(bool (*visit)(const mi_os_mapping_t* mapping, void* arg),
                                void* arg) {
  (void)visit;
  (void)arg;
  return false;
}

MI_INTERNAL int mi_os_resident_pages(const void* start, size_t size, uint8_t* pages) {
  (void)pages;
  return mi_os_lacks(start, size);
}

MI_INTERNAL void mi_os_resident_sum(mi_os_resident_t* sum) { *sum = (mi_os_resident_t){0}; }

MI_INTERNAL bool mi_os_limit(mi_os_limit_t* limit) {
  *limit = (mi_os_limit_t){.limit = UINT64_MAX};
  return false;
}

MI_INTERNAL bool mi_os_file_exists(const char* path) { return path == NULL; }

MI_INTERNAL int mi_os_folder_open(const char* path, int* folder) {
  *folder = -1;
  return path[0] == 0 ? ENOENT : ENOSYS;
}

MI_INTERNAL int mi_os_folder_read(int folder, const char* name, char* text, size_t capacity) {
  text[0] = 0;
  return folder < 0 || name[0] == 0 || capacity == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_create(int folder, const char* name, int* file) {
  *file = -1;
  return folder < 0 || name[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_rename(int folder, const char* from, const char* to) {
  return folder < 0 || from[0] == 0 || to[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_remove(int folder, const char* name) {
  return folder < 0 || name[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL void mi_os_expect_threads(void) {}

MI_INTERNAL bool mi_os_is_vfork_child(void) { return false; }
