// SPDX-License-Identifier: MIT
// os_linux_dump.c - what is mapped, on Linux, for dumps.
//
//   /proc/self/maps --> lines --> mappings with code, and the build-id of the file of each
//
// OS_LINUX_DUMP-1  a build-id is read from the head of a file as it is mapped, never from the file:
//     the mapping that begins at offset 0, whose headers and notes lie in it. The program may unmap
//     it meanwhile, or the file may have become shorter: so the system is asked to copy from there
//     (process_vm_readv), which fails instead. Where it may not be asked there is no build-id.
// OS_LINUX_DUMP-2  nothing here allocates, and no lock is taken, so that the child of a fork can
//     dump.
// Deliberately absent: formats.
#include <elf.h>
#include <link.h>
#include <sys/uio.h>

// A line of the file is longer than this only if its path is: such a path is cut.
#define MI_OS_MAPS_LINE ((size_t)1024)

MI_INTERNAL size_t mi_os_thread_number(void) {
  const int saved_errno = errno;
  const long number = syscall(SYS_gettid);
  errno = saved_errno;
  return (size_t)number;
}

// -- Mappings --

// The file being read, and the mapping that begins with the head of a file.
typedef struct mi_os_maps_s {
  int fd;
  size_t used, next; // bytes in `buffer`, and those of them that were handed out
  char buffer[4096];
  uintptr_t head_start, head_end; // of the last file, 0 none
  uint64_t head_inode;
  uint8_t build_id[32];
  size_t build_id_size;
} mi_os_maps_t;

// Return the next character of the file, -1 at its end.
static int mi_os_maps_next(mi_os_maps_t* maps) {
  if (maps->next == maps->used) {
    const ptrdiff_t got = mi_os_call_read(maps->fd, maps->buffer, sizeof(maps->buffer));
    if (got <= 0) return -1;
    maps->used = (size_t)got;
    maps->next = 0;
  }
  return (unsigned char)maps->buffer[maps->next++];
}

// Read a line, without its end; what does not fit is left out. False at the end of the file.
static bool mi_os_maps_line(mi_os_maps_t* maps, char* line) {
  size_t used = 0;
  int c;
  while ((c = mi_os_maps_next(maps)) >= 0 && c != '\n') {
    if (used < MI_OS_MAPS_LINE - 1) line[used++] = (char)c;
  }
  line[used] = 0;
  return used > 0;
}

// Read a number in base 10 or 16, and skip what is behind it, one character or spaces.
static uint64_t mi_os_maps_number(const char** s, unsigned base) {
  uint64_t number = 0;
  for (; **s != 0; (*s)++) {
    const char c = **s;
    unsigned digit = 99;
    if (c >= '0' && c <= '9') digit = (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a') + 10;
    if (digit >= base) break;
    number = number * base + digit;
  }
  if (**s != 0) (*s)++;
  while (**s == ' ') (*s)++;
  return number;
}

// -- Build-ids: OS_LINUX_DUMP-1 --

// Copy bytes of the head; false if they are not in it, or no longer there.
static bool mi_os_head_copy(const mi_os_maps_t* maps, uint64_t offset, void* to, size_t size) {
  const size_t room = maps->head_end - maps->head_start;
  if (offset > room || size > room - offset) return false;
  struct iovec here = {to, size};
  struct iovec there = {(void*)(maps->head_start + (uintptr_t)offset), size};
  const long pid = (long)mi_os_process_number();
  return syscall(SYS_process_vm_readv, pid, &here, 1L, &there, 1L, 0L) == (long)size;
}

// Look for the build-id among `size` bytes of notes.
static bool mi_os_find_note(mi_os_maps_t* maps, uint64_t at, uint64_t size) {
  const uint64_t end = at + size;
  while (end - at > sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    char name[4];
    if (!mi_os_head_copy(maps, at, &note, sizeof(note))) return false;
    const uint64_t name_size = mi_bits_align_up(note.n_namesz, 4);
    const uint64_t room = end - at - sizeof(note);
    if (name_size > room || note.n_descsz > room - name_size) return false;
    at += sizeof(note);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(name) &&
        note.n_descsz <= sizeof(maps->build_id) && mi_os_head_copy(maps, at, name, sizeof(name)) &&
        __builtin_memcmp(name, "GNU", sizeof(name)) == 0) {
      maps->build_id_size = note.n_descsz;
      return mi_os_head_copy(maps, at + name_size, maps->build_id, note.n_descsz);
    }
    if (mi_bits_align_up(note.n_descsz, 4) > room - name_size) return false;
    at += name_size + mi_bits_align_up(note.n_descsz, 4);
  }
  return false;
}

// Find the build-id of the file whose head is mapped.
static bool mi_os_find_build_id(mi_os_maps_t* maps) {
  ElfW(Ehdr) head;
  if (!mi_os_head_copy(maps, 0, &head, sizeof(head))) return false;
  if (__builtin_memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  for (size_t i = 0; i < head.e_phnum; i++) {
    ElfW(Phdr) part;
    if (!mi_os_head_copy(maps, head.e_phoff + i * sizeof(part), &part, sizeof(part))) return false;
    const size_t room = maps->head_end - maps->head_start;
    if (part.p_type != PT_NOTE || part.p_offset > room) continue;
    if (part.p_filesz > room - part.p_offset) continue;
    if (mi_os_find_note(maps, part.p_offset, part.p_filesz)) return true;
  }
  return false;
}

// Read a line: start-end rights offset device inode path. False if it is no code.
static bool mi_os_maps_parse(mi_os_maps_t* maps, const char* line, mi_os_mapping_t* mapping) {
  const char* s = line;
  mapping->start = (uintptr_t)mi_os_maps_number(&s, 16);
  mapping->end = (uintptr_t)mi_os_maps_number(&s, 16);
  const char* const rights = s;
  while (*s != 0 && *s != ' ') s++;
  while (*s == ' ') s++;
  if (s - rights < 4) return false;
  mapping->offset = mi_os_maps_number(&s, 16);
  mi_os_maps_number(&s, 16);
  mi_os_maps_number(&s, 16);
  const uint64_t inode = mi_os_maps_number(&s, 10);
  mapping->path = s;
  if (mapping->offset == 0 && inode != 0 && rights[0] == 'r') {
    maps->head_start = mapping->start;
    maps->head_end = mapping->end;
    maps->head_inode = inode;
  }
  if (rights[2] != 'x') return false;
  mapping->build_id = NULL;
  mapping->build_id_size = 0;
  if (inode != 0 && inode == maps->head_inode && mi_os_find_build_id(maps)) {
    mapping->build_id = maps->build_id;
    mapping->build_id_size = maps->build_id_size;
  }
  return true;
}

MI_INTERNAL bool mi_os_mappings(bool (*visit)(const mi_os_mapping_t* mapping, void* arg),
                                void* arg) {
  static const char path[] = "/proc/self/maps";
  const int saved_errno = errno;
  mi_os_maps_t maps = {.fd = mi_os_call_open(path, O_RDONLY | O_CLOEXEC, 0)};
  bool is_done = maps.fd >= 0;
  char line[MI_OS_MAPS_LINE];
  while (is_done && mi_os_maps_line(&maps, line)) {
    mi_os_mapping_t mapping;
    if (mi_os_maps_parse(&maps, line, &mapping)) is_done = visit(&mapping, arg);
  }
  if (maps.fd >= 0) mi_os_call_close(maps.fd);
  errno = saved_errno;
  return is_done;
}
