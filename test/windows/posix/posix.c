// SPDX-License-Identifier: MIT
// posix.c - see unistd.h and sys/mman.h.
//
// POSIX-1  addresses of a mapping whose first page is unmapped go back as a whole; of a part, only
//     the memory does.
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "proc.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <psapi.h>

#undef signal

long sysconf(int name) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return name == _SC_PAGESIZE ? (long)info.dwPageSize : (long)info.dwNumberOfProcessors;
}

static void (*posix_on_alarm)(int);

void (*posix_signal(int number, void (*handler)(int)))(int) {
  if (number != SIGALRM)
    return number == SIGKILL || number == SIGBUS ? NULL : signal(number, handler);
  void (*const before)(int) = posix_on_alarm;
  posix_on_alarm = handler;
  return before;
}

int sigaction(int number, const struct sigaction* action, struct sigaction* before) {
  if (number != SIGALRM) {
    errno = ENOSYS;
    return -1;
  }
  if (before != NULL) *before = (struct sigaction){.sa_handler = posix_on_alarm};
  if (action != NULL) posix_on_alarm = action->sa_handler;
  return 0;
}

static volatile LONG64 posix_due_ms; // 0: no alarm
static volatile LONG posix_is_waiting; // there is a thread for alarms

static DWORD WINAPI posix_wait(void* about) {
  (void)about;
  while (posix_is_waiting) {
    Sleep(100);
    const LONG64 due = posix_due_ms;
    if (due == 0 || (LONG64)GetTickCount64() < due) continue;
    posix_due_ms = 0;
    if (posix_on_alarm != NULL) posix_on_alarm(SIGALRM);
  }
  return 0;
}

unsigned alarm(unsigned seconds) {
  posix_due_ms = seconds == 0 ? 0 : (LONG64)(GetTickCount64() + 1000ull * seconds);
  if (InterlockedExchange(&posix_is_waiting, 1) == 0) {
    HANDLE thread = CreateThread(NULL, 65536, &posix_wait, NULL, 0, NULL);
    if (thread != NULL) CloseHandle(thread);
  }
  return 0;
}

static volatile LONG posix_interval_ms;

static DWORD WINAPI posix_tick(void* about) {
  (void)about;
  for (LONG ms; (ms = posix_interval_ms) != 0;) {
    Sleep((DWORD)ms);
    if (posix_on_alarm != NULL) posix_on_alarm(SIGALRM);
  }
  return 0;
}

// Another call ends or changes the only timer; its last call of the handler has ended then.
int setitimer(int which, const struct itimerval* timer, struct itimerval* before) {
  static HANDLE thread;
  (void)which, (void)before;
  posix_interval_ms = 0;
  if (thread != NULL) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
    thread = NULL;
  }
  posix_interval_ms = timer->it_interval.tv_sec * 1000 + timer->it_interval.tv_usec / 1000;
  if (posix_interval_ms != 0) thread = CreateThread(NULL, 65536, &posix_tick, NULL, 0, NULL);
  return thread != NULL || posix_interval_ms == 0 ? 0 : -1;
}

int setenv(const char* name, const char* value, int is_replaced) {
  if (!is_replaced && getenv(name) != NULL) return 0;
  return _putenv_s(name, value);
}

int unsetenv(const char* name) { return _putenv_s(name, ""); }

int timespec_get(struct timespec* t, int base) {
  return clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

static DWORD posix_protection(int protection) {
  if (protection == PROT_NONE) return PAGE_NOACCESS;
  return (protection & PROT_WRITE) != 0 ? PAGE_READWRITE : PAGE_READONLY;
}

int memfd_create(const char* name, unsigned flags) {
  (void)flags;
  char folder[MAX_PATH], path[MAX_PATH];
  if (GetTempPathA(sizeof(folder), folder) == 0 || GetTempFileNameA(folder, name, 0, path) == 0) {
    errno = ENOSYS;
    return -1;
  }
  return _open(path, _O_RDWR | _O_TEMPORARY | _O_NOINHERIT | _O_BINARY);
}

static void* posix_map_file(int file, size_t size) {
  const HANDLE section =
      CreateFileMappingA((HANDLE)_get_osfhandle(file), NULL, PAGE_READWRITE, 0, 0, NULL);
  if (section == NULL) return NULL;
  void* const p = MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, size);
  CloseHandle(section); // the view keeps it
  return p;
}

void* mmap(void* start, size_t size, int protection, int flags, int file, off_t offset) {
  (void)offset;
  void* p = NULL;
  if ((flags & MAP_ANONYMOUS) != 0) {
    p = VirtualAlloc(start, size, MEM_RESERVE | MEM_COMMIT, posix_protection(protection));
  } else if ((flags & MAP_SHARED) != 0) {
    p = posix_map_file(file, size);
  }
  if (p != NULL) return p;
  errno = ENOMEM;
  return MAP_FAILED;
}

int munmap(void* start, size_t size) {
  MEMORY_BASIC_INFORMATION info;
  if (VirtualQuery(start, &info, sizeof(info)) == 0) return -1;
  if (info.Type == MEM_MAPPED) return UnmapViewOfFile(start) ? 0 : -1;
  const BOOL is_done = info.AllocationBase == start ? VirtualFree(start, 0, MEM_RELEASE)
                                                    : VirtualFree(start, size, MEM_DECOMMIT);
  return is_done ? 0 : -1;
}

int mprotect(void* start, size_t size, int protection) {
  DWORD before;
  return VirtualProtect(start, size, posix_protection(protection), &before) ? 0 : -1;
}

int madvise(void* start, size_t size, int advice) {
  if (advice != MADV_DONTNEED || !VirtualFree(start, size, MEM_DECOMMIT)) return -1;
  return VirtualAlloc(start, size, MEM_COMMIT, PAGE_READWRITE) != NULL ? 0 : -1;
}

int mincore(void* start, size_t size, unsigned char* resident) {
  for (size_t i = 0; i < size / 4096; i++) {
    PSAPI_WORKING_SET_EX_INFORMATION info = {.VirtualAddress = (char*)start + i * 4096};
    if (!K32QueryWorkingSetEx(GetCurrentProcess(), &info, sizeof(info))) return -1;
    resident[i] = (unsigned char)info.VirtualAttributes.Valid;
  }
  return 0;
}

// -- proc.h --

size_t proc_memory(proc_memory_t which) {
  PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof(memory)};
  CHECK(K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory)));
  return which == PROC_RESIDENT ? memory.WorkingSetSize : memory.PagefileUsage;
}

size_t proc_areas(void) {
  MEMORY_BASIC_INFORMATION info;
  size_t count = 0;
  for (char* at = NULL; VirtualQuery(at, &info, sizeof(info)) != 0;
       at = (char*)info.BaseAddress + info.RegionSize) {
    count += info.State != MEM_FREE;
  }
  return count;
}
