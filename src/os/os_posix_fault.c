// SPDX-License-Identifier: MIT
// os_posix_fault.c - faults, stacks and symbols, where there are signals, and a loader of ELF files
// or that of macOS.
//
//   fault -> mi_os_on_fault (SIGSEGV, SIGBUS) -> on_fault -> the handler there was before us
//                                                        '-> none: the access is repeated without
//                                                            us, and ends the process as always
//
// OS_POSIX_FAULT-1  handlers are installed by the first `mi_os_fault_watch` and never otherwise.
//     A program that installs one later replaces ours, and may call it: it only looks, and goes on
//     to the handler that was there before.
// OS_POSIX_FAULT-2  one thread at a time reports; others that fault meanwhile wait for it, because
//     what they do next may end the process. A fault inside of the report is not reported. They do
//     not wait for ever: the other thread may have left its report (longjmp out of the program's
//     function), or be missing in the child of a fork.
// OS_POSIX_FAULT-3  stacks are read with `backtrace` of libc, once that was called in a safe moment
//     (its first call loads a library), and if it takes no lock: with glibc 2.35, which brought
//     `_dl_find_object`, or on macOS. Else by the chain of frame pointers, each of which is tested
//     before it is read (mi_os_is_readable).
// OS_POSIX_FAULT-4  there is no stack where the unwinder of `backtrace` calls this library: it may
//     hold a lock of its own, for which `backtrace` would wait for ever.
// All references to functions that not every libc has are weak: no further library is needed.
#include <dlfcn.h>
#if MI_IS_MACOS
#include <mach-o/loader.h>
#else
#include <link.h>
#endif

#include "os_posix.h"

#if MI_IS_MACOS // it reads frame pointers there, which all code has, and takes no lock
extern int backtrace(void** frames, int capacity);
#define MI_OS_HAS_SAFE_BACKTRACE true
#define MI_OS_HAS_DLADDR true
#else
extern int backtrace(void** frames, int capacity) mi_attr_weak;
// Only whether it is there; newer headers declare it.
extern char mi_os_find_object __asm__("_dl_find_object") mi_attr_weak;
#pragma weak dladdr
#pragma weak dl_iterate_phdr
#define MI_OS_HAS_DLADDR (dladdr != NULL)
#define MI_OS_HAS_SAFE_BACKTRACE (backtrace != NULL && &mi_os_find_object != NULL)
#endif

#define MI_OS_STACK_MAX 80
#define MI_OS_STEP_MAX ((uintptr_t)MI_MIB) // no frame is larger
#define MI_OS_ROOM_MIN ((size_t)16 * MI_KIB)
#define MI_OS_REPORT_MS 3000 // no report takes longer

// -- Stacks --

// The code of this library, if it is a shared one; whether libc was asked once for a stack, and
// gave one. Written by `mi_os_stack_prepare`, read by any thread; relaxed: a stale value shows a
// few more frames.
static mi_atomic(uintptr_t) mi_os_code_first, mi_os_code_end;
static mi_atomic(bool) mi_os_asked_backtrace;
//   write  any  store release  mi_os_stack_prepare  (publishes what is known of the unwinder)
//   read   any  acquire        mi_os_stack          (sees it)
static mi_atomic(bool) mi_os_has_backtrace;

#if MI_IS_MACOS
// A segment of code begins at the header of its file.
static void mi_os_find_code(void) {
  Dl_info info;
  if (dladdr((const void*)(uintptr_t)&mi_os_find_code, &info) == 0) return;
  const struct mach_header_64* const header = (const struct mach_header_64*)info.dli_fbase;
  if (header->magic != MH_MAGIC_64 || header->filetype != MH_DYLIB) return;
  const struct load_command* command = (const struct load_command*)(header + 1);
  for (uint32_t i = 0; i < header->ncmds; i++) {
    const struct segment_command_64* const part = (const struct segment_command_64*)command;
    if (command->cmd == LC_SEGMENT_64 && (part->initprot & PROT_EXEC) != 0) {
      mi_atomic_store_relaxed(&mi_os_code_first, (uintptr_t)header);
      mi_atomic_store_relaxed(&mi_os_code_end, (uintptr_t)header + part->vmsize);
      return;
    }
    command = (const struct load_command*)((const char*)command + command->cmdsize);
  }
}
#else
static int mi_os_find_code_of(struct dl_phdr_info* info, size_t size, void* arg) {
  (void)size;
  const uintptr_t at = (uintptr_t)&mi_os_find_code_of;
  const bool is_program = info->dlpi_name == NULL || info->dlpi_name[0] == 0;
  (void)arg;
  for (size_t i = 0; !is_program && i < info->dlpi_phnum; i++) {
    const __typeof__(*info->dlpi_phdr)* const part = &info->dlpi_phdr[i];
    const uintptr_t first = info->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD || at - first >= part->p_memsz) continue;
    mi_atomic_store_relaxed(&mi_os_code_first, first);
    mi_atomic_store_relaxed(&mi_os_code_end, first + part->p_memsz);
    return 1;
  }
  return 0;
}

static void mi_os_find_code(void) {
  if (dl_iterate_phdr != NULL) dl_iterate_phdr(&mi_os_find_code_of, NULL);
}
#endif

MI_INTERNAL void mi_os_stack_prepare(void) {
  if (mi_atomic_load_relaxed(&mi_os_asked_backtrace)) return;
  mi_atomic_store_relaxed(&mi_os_asked_backtrace, true);
  const int saved_errno = errno;
  mi_os_find_code();
  if (MI_OS_HAS_SAFE_BACKTRACE) {
    // Libc loads the unwinder at its first call. If it has no memory for that it must not try
    // again: the loader of glibc ends the process then.
    void* frames[2];
    const bool has_backtrace = backtrace(frames, 2) > 0;
    if (has_backtrace) mi_os_call_find_unwinder();
    // Publishes what is known of the unwinder; pairs with the acquire in `mi_os_stack`.
    mi_atomic_store_release(&mi_os_has_backtrace, has_backtrace);
  }
  errno = saved_errno;
}

static bool mi_os_is_in_library(const void* at) {
  const uintptr_t first = mi_atomic_load_relaxed(&mi_os_code_first);
  return (uintptr_t)at - first < mi_atomic_load_relaxed(&mi_os_code_end) - first;
}

// A frame begins with the address of the next one and the address that it returns to, on x86-64 and
// aarch64.
static size_t mi_os_walk_frames(const void** frames, size_t capacity) {
  const uintptr_t page_size = 4096; // a smaller one than there is costs calls only
  const uintptr_t* frame = (const uintptr_t*)__builtin_frame_address(0);
  uintptr_t known = 0; // the last page that can be read
  size_t count = 0;
  while (count < capacity) {
    const uintptr_t at = (uintptr_t)frame;
    const uintptr_t last = (at + sizeof(uintptr_t)) / page_size;
    if (at % sizeof(uintptr_t) != 0) break;
    if (at / page_size != known && !mi_os_is_readable(frame)) break;
    if (last != at / page_size && !mi_os_is_readable(frame + 1)) break;
    known = last;
    if (frame[1] == 0) break;
    frames[count++] = (const void*)frame[1];
    if (frame[0] <= at || frame[0] - at > MI_OS_STEP_MAX) break;
    frame = (const uintptr_t*)frame[0];
  }
  return count;
}

MI_INTERNAL size_t mi_os_stack(const void** frames, size_t capacity) {
  const int saved_errno = errno;
  const void* all[MI_OS_STACK_MAX];
  const size_t wanted = mi_bits_min(capacity + 12, MI_OS_STACK_MAX);
  size_t count = 0;
  // Sees what is known of the unwinder; pairs with the release in `mi_os_stack_prepare`.
  if (mi_atomic_load_acquire(&mi_os_has_backtrace)) {
    const bool may_wait = mi_os_call_is_unwinders(__builtin_frame_address(0)); // OS_POSIX_FAULT-4
    if (!may_wait) count = (size_t)backtrace((void**)(uintptr_t)all, (int)wanted);
  } else {
    count = mi_os_walk_frames(all, wanted);
  }
  size_t skip = 0;
  while (skip < count && mi_os_is_in_library(all[skip])) skip++;
  count = mi_bits_min(count - skip, capacity);
  for (size_t i = 0; i < count; i++) frames[i] = all[skip + i];
  errno = saved_errno;
  return count;
}

MI_INTERNAL void mi_os_symbol(const void* at, mi_os_symbol_t* symbol) {
  const int saved_errno = errno;
  *symbol = (mi_os_symbol_t){0};
  Dl_info info;
  // A call may be the last instruction of its function.
  if (MI_OS_HAS_DLADDR && dladdr((const char*)at - 1, &info) != 0) {
    symbol->function = info.dli_sname;
    if (info.dli_sname != NULL) {
      symbol->function_offset = (uintptr_t)at - (uintptr_t)info.dli_saddr;
    }
    symbol->module = info.dli_fname;
    for (const char* s = info.dli_fname; s != NULL && *s != 0; s++) {
      if (*s == '/') symbol->module = s + 1;
    }
    symbol->module_offset = (uintptr_t)at - (uintptr_t)info.dli_fbase;
  }
  errno = saved_errno;
}

// -- Faults --

typedef void mi_os_on_fault_t(const mi_os_fault_t* fault);

static const int mi_os_fault_signals[] = {SIGSEGV, SIGBUS};
#define MI_OS_FAULT_SIGNALS 2

// What was there before us. Written before the function below is; read by handlers.
static struct sigaction mi_os_fault_before[MI_OS_FAULT_SIGNALS];
// The function to call.
//   write  any  store release  mi_os_fault_watch    (publishes the handlers before us)
//   write  any  store release  mi_os_fault_unwatch
//   read   any  acquire        mi_os_on_fault       (sees these)
//   read   any  acquire        mi_os_fault_watch, mi_os_fault_unwatch
static mi_atomic(mi_os_on_fault_t*) mi_os_fault_function;
// The handlers are being changed. Written and read by any thread, relaxed: who finds it set leaves
// the work to the other.
static mi_atomic(uint32_t) mi_os_fault_changing;
// 1 a thread reports, 2 and others wait for it: OS_POSIX_FAULT-2.
//   write  any  swap acquire  mi_os_tell_fault  (sees what the last one wrote)
//   write  any  swap release  mi_os_tell_fault  (publishes it)
static mi_atomic(uint32_t) mi_os_fault_busy;
// The thread that reports, 0 none. Written by that thread, read by any, relaxed: only that thread
// finds its own id.
static mi_atomic(uintptr_t) mi_os_fault_thread;

// True if there is room on the stack: unless it is a small alternate one (sigaltstack(2)).
static bool mi_os_has_room(const ucontext_t* context) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
#if defined(__OpenBSD__) // a context does not have it
  (void)context;
  stack_t stack;
  if (sigaltstack(NULL, &stack) != 0) return true;
#else
  const stack_t stack = context->uc_stack;
#endif
  const uintptr_t start = (uintptr_t)stack.ss_sp;
  if ((stack.ss_flags & SS_DISABLE) != 0) return true;
  if (here - start >= stack.ss_size) return true;
  return here - start >= MI_OS_ROOM_MIN;
}

static void mi_os_tell_fault(mi_os_on_fault_t* function, int number, siginfo_t* info,
                             void* context) {
  const uintptr_t self = mi_tls_thread_id();
  if (mi_atomic_load_relaxed(&mi_os_fault_thread) == self) return; // inside of the report
  uint32_t word = 1;
  const uint64_t start_ms = mi_os_now_ms();
  // Sees what the last one wrote; pairs with the release in `mi_os_tell_fault`.
  while (mi_atomic_swap_acquire(&mi_os_fault_busy, word) != 0) {
    if (mi_os_now_ms() - start_ms > MI_OS_REPORT_MS) return;
    word = 2;
    mi_os_wait_ms(&mi_os_fault_busy, word, MI_OS_REPORT_MS / 20);
  }
  mi_atomic_store_relaxed(&mi_os_fault_thread, self);
  mi_os_fault_t fault = {.address = mi_cpu_address(info->si_addr), .used = info->si_addr};
  const uintptr_t top = mi_os_call_fault(number, info, (const ucontext_t*)context, &fault);
  const bool is_overflow = (uintptr_t)fault.address - top + MI_OS_STEP_MAX < 2 * MI_OS_STEP_MAX;
  fault.is_in_library = !is_overflow && mi_os_is_in_library(fault.at);
  fault.has_room = mi_os_has_room((const ucontext_t*)context);
  function(&fault);
  mi_atomic_store_relaxed(&mi_os_fault_thread, 0);
  // Publishes that to the next one; pairs with the acquire in `mi_os_tell_fault`.
  if (mi_atomic_swap_release(&mi_os_fault_busy, 0) == 2) mi_os_wake(&mi_os_fault_busy);
}

// Do what would have been done without us.
static void mi_os_pass_fault(int number, siginfo_t* info, void* context) {
  const struct sigaction* const before = &mi_os_fault_before[number == SIGBUS ? 1 : 0];
  const bool is_sent = info->si_code <= 0; // by a process
  const bool has_info = (before->sa_flags & SA_SIGINFO) != 0;
  if (!has_info && (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)) {
    if (is_sent && before->sa_handler == SIG_IGN) return;
    // The access is repeated when this function returns. A signal that was sent is sent again.
    sigaction(number, before, NULL);
    if (is_sent) mi_os_call_raise(number);
    return;
  }
  if ((before->sa_flags & (int)SA_RESETHAND) != 0) { // it is called once
    struct sigaction none = {.sa_handler = SIG_DFL};
    sigemptyset(&none.sa_mask);
    sigaction(number, &none, NULL);
  }
  sigset_t mask = before->sa_mask;
  sigset_t saved;
  if ((before->sa_flags & SA_NODEFER) == 0) sigaddset(&mask, number);
  pthread_sigmask(SIG_BLOCK, &mask, &saved);
  if (has_info) {
    before->sa_sigaction(number, info, context);
  } else {
    before->sa_handler(number);
  }
  pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

static void mi_os_on_fault(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // Sees the handlers before us; pairs with the release in `mi_os_fault_watch`.
  mi_os_on_fault_t* const function = mi_atomic_load_acquire(&mi_os_fault_function);
  if (function != NULL && info->si_code > 0) mi_os_tell_fault(function, number, info, context);
  mi_os_pass_fault(number, info, context);
  errno = saved_errno;
}

// Install our handler for a signal. Again, if we did before, only where there is none: a handler of
// the program may call ours, and would then be called by it without end.
static bool mi_os_fault_install(size_t i, bool is_again) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  action.sa_flags |= mi_os_call_fault_flags;
  action.sa_sigaction = &mi_os_on_fault;
  sigemptyset(&action.sa_mask);
  struct sigaction now;
  if (sigaction(mi_os_fault_signals[i], NULL, &now) != 0) return false;
  const bool has_info = (now.sa_flags & SA_SIGINFO) != 0;
  if (has_info && now.sa_sigaction == &mi_os_on_fault) return true;
  if (is_again && (has_info || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))) {
    return false;
  }
  mi_os_fault_before[i] = now;
  return sigaction(mi_os_fault_signals[i], &action, NULL) == 0;
}

MI_INTERNAL bool mi_os_fault_watch(void (*on_fault)(const mi_os_fault_t* fault)) {
  if (mi_atomic_swap_relaxed(&mi_os_fault_changing, 1) != 0) return true;
  const int saved_errno = errno;
  // Pairs with the release in `mi_os_fault_watch`.
  const bool is_again = mi_atomic_load_acquire(&mi_os_fault_function) != NULL;
  bool is_done = true;
  for (size_t i = 0; i < MI_OS_FAULT_SIGNALS; i++) {
    is_done = mi_os_fault_install(i, is_again) && is_done;
  }
  // Publishes the handlers before us; pairs with the acquire in `mi_os_on_fault`.
  mi_atomic_store_release(&mi_os_fault_function, on_fault);
  mi_atomic_store_relaxed(&mi_os_fault_changing, 0);
  errno = saved_errno;
  return is_done;
}

MI_INTERNAL void mi_os_fault_unwatch(void) {
  // Pairs with the release in `mi_os_fault_watch`.
  if (mi_atomic_load_acquire(&mi_os_fault_function) == NULL) return;
  const int saved_errno = errno;
  for (size_t i = 0; i < MI_OS_FAULT_SIGNALS; i++) {
    struct sigaction now;
    if (sigaction(mi_os_fault_signals[i], NULL, &now) != 0) continue;
    if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != &mi_os_on_fault) continue;
    sigaction(mi_os_fault_signals[i], &mi_os_fault_before[i], NULL);
  }
  // Pairs with the acquire in `mi_os_on_fault`.
  mi_atomic_store_release(&mi_os_fault_function, NULL);
  errno = saved_errno;
}
