// SPDX-License-Identifier: MIT
// What msvcrt.lib of Visual Studio puts into each program and DLL: where it starts, the table of
// its thread-local variables, what the compiler refers to. With it, clang-cl links against Wine's
// import libraries, on a machine without the libraries of Microsoft (cmake/cross-msvc.cmake).
// `__chkstk` is in Wine's kernel32.
//
// Compiled three times: what all need, IS_PROGRAM, IS_LIBRARY. The linker sorts sections by what is
// behind the `$`: between .CRT$XCA and .CRT$XCZ are functions to call at the start, between
// .CRT$XLA and .CRT$XLZ callbacks for threads ("PE Format", Microsoft).
#include <windows.h>

#include <stdint.h>
#include <stdlib.h>

void runtime_start(void);
void runtime_end(void);

#if defined(IS_PROGRAM)

extern int main(int argc, char** argv);
#if defined(_UCRT)
__declspec(dllimport) int __cdecl _configure_narrow_argv(int mode);
__declspec(dllimport) int __cdecl _initialize_narrow_environment(void);
#else
__declspec(dllimport) int __cdecl __getmainargs(int*, char***, char***, int, int*);
#endif

void mainCRTStartup(void) {
  runtime_start();
#if defined(_UCRT)
  _configure_narrow_argv(1);
  _initialize_narrow_environment();
  const int status = main(*__p___argc(), *__p___argv());
#else
  int argc, mode = 0;
  char **argv, **environment;
  __getmainargs(&argc, &argv, &environment, 0, &mode);
  const int status = main(argc, argv);
#endif
  runtime_end();
  exit(status);
}

#elif defined(IS_LIBRARY)

extern BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void* reserved);

BOOL WINAPI _DllMainCRTStartup(HINSTANCE module, DWORD reason, void* reserved) {
  if (reason == DLL_PROCESS_ATTACH) runtime_start();
  const BOOL is_done = DllMain(module, reason, reserved);
  if (reason == DLL_PROCESS_DETACH) runtime_end();
  return is_done;
}

#else

typedef void(__cdecl* function_t)(void);

int _fltused = 0x9875;
uintptr_t __security_cookie = 0x2B992DDFA232;

void __cdecl __security_check_cookie(uintptr_t cookie) {
  if (cookie != __security_cookie) __debugbreak();
}

#pragma section(".CRT$XCA", long, read)
#pragma section(".CRT$XCZ", long, read)
#pragma section(".CRT$XLA", long, read)
#pragma section(".CRT$XLZ", long, read)
#pragma section(".tls", long, read, write)
#pragma section(".tls$ZZZ", long, read, write)
__declspec(allocate(".CRT$XCA")) const function_t first_start = NULL;
__declspec(allocate(".CRT$XCZ")) const function_t last_start = NULL;
__declspec(allocate(".CRT$XLA")) const PIMAGE_TLS_CALLBACK first_callback = NULL;
__declspec(allocate(".CRT$XLZ")) const PIMAGE_TLS_CALLBACK last_callback = NULL;
__declspec(allocate(".tls")) char first_variable = 0;
__declspec(allocate(".tls$ZZZ")) char last_variable = 0;
ULONG _tls_index = 0;
const IMAGE_TLS_DIRECTORY64 _tls_used = {
    .StartAddressOfRawData = (ULONGLONG)&first_variable,
    .EndAddressOfRawData = (ULONGLONG)&last_variable,
    .AddressOfIndex = (ULONGLONG)&_tls_index,
    .AddressOfCallBacks = (ULONGLONG)(&first_callback + 1),
};

void runtime_start(void) {
  for (const function_t* f = &first_start + 1; f < &last_start; f++) {
    if (*f != NULL) (*f)();
  }
}

// Each module has a table of its own. That of a DLL is called when it goes.
#define ENDS_MAX 32
static function_t ends[ENDS_MAX];
static size_t end_count;

int __cdecl atexit(function_t end) {
  if (end_count == ENDS_MAX) return -1;
  ends[end_count++] = end;
  return 0;
}

void runtime_end(void) {
  while (end_count > 0) ends[--end_count]();
}

// What the type of each exception refers to: the virtual table of std::type_info.
const void* const runtime_type_info[2] __asm__("??_7type_info@@6B@") = {NULL, NULL};

// The DllMain of a DLL that has none.
BOOL WINAPI runtime_no_main(HINSTANCE module, DWORD reason, void* reserved) {
  (void)module, (void)reason, (void)reserved;
  return TRUE;
}
#pragma comment(linker, "/alternatename:DllMain=runtime_no_main")

#endif
