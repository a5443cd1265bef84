# What a user, a packager or a developer can switch. Each is described in CONTRIBUTING.md.

# A project that adds this one may set options as normal variables, which option() leaves alone. CMake before 3.21 has no
# such policy for set(... CACHE ...), and would drop them when it first makes the entry.
if(POLICY CMP0126)
  cmake_policy(SET CMP0126 NEW)
endif()
macro(mi_text_option name help)
  if(POLICY CMP0126 OR NOT DEFINED ${name})
    set(${name} "" CACHE STRING "${help}")
  endif()
endmacro()

# Whether a project adds this one (add_subdirectory, FetchContent).
set(MI_IS_PART ON)
if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(MI_IS_PART OFF)
endif()

# There are no shared libraries in WebAssembly.
set(MI_SHARED_DEFAULT ON)
if(EMSCRIPTEN OR CMAKE_SYSTEM_PROCESSOR MATCHES "^wasm")
  set(MI_IS_WASM ON)
  set(MI_SHARED_DEFAULT OFF)
endif()

# The libraries with the names of other allocators need the shared one, and that malloc is replaced. A project that adds
# this one has no use for them.
# So it is with what records and replays calls, which is for Linux on processors of 64 bits.
set(MI_COMPAT_DEFAULT OFF)
set(MI_TRACE_DEFAULT OFF)
set(MI_IDLE_DEFAULT OFF) # for Linux
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT MI_IS_PART)
  set(MI_COMPAT_DEFAULT ON)
  set(MI_IDLE_DEFAULT ON)
  if(CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(MI_TRACE_DEFAULT ON)
  endif()
endif()

# The tool that reads /proc and core dumps. It is Python, and nothing is compiled. A project that adds this one has no use
# for it.
set(MI_INSPECT_DEFAULT OFF)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT MI_IS_PART)
  set(MI_INSPECT_DEFAULT ON)
endif()

# For users and packagers.
option(MI_OVERRIDE "Define malloc, free, operator new and their relatives" ON)
option(MI_BUILD_SHARED "Build the shared library" ${MI_SHARED_DEFAULT})
option(MI_BUILD_STATIC "Build the static library" ON)
option(MI_BUILD_OBJECT "Build the single object file" ON)
option(MI_BUILD_COMPAT "Build libraries with the names of jemalloc and gperftools" ${MI_COMPAT_DEFAULT})
option(MI_BUILD_TRACE "Build what records and replays the calls of programs" ${MI_TRACE_DEFAULT})
option(MI_BUILD_IDLE "Build the library by which programs give memory back while they wait" ${MI_IDLE_DEFAULT})
option(MI_INSTALL_INSPECT "Install mimalloc-inspect, which needs Python 3.8" ${MI_INSPECT_DEFAULT})
option(MI_LOCAL_DYNAMIC_TLS "Thread-local variables that never lack room in a library loaded by dlopen" OFF)
option(MI_INSTALL_TOPLEVEL "Install without versioned directories" OFF)
option(MI_SHOW_ERRORS "Print errors and warnings unless told otherwise" OFF)
option(MI_XMALLOC "End the process when memory cannot be had" OFF)
option(MI_TRACK_ASAN "Tell AddressSanitizer about blocks; malloc stays the sanitizer's" OFF)
option(MI_TRACK_VALGRIND "Tell Valgrind about blocks" OFF)
mi_text_option(MI_SECURE "Secure build: ON, OFF, or a level of 0 to 5; empty: as the name of the build folder says")
option(MI_MTE "Tag memory, on 64-bit ARM with MTE" OFF)
option(MI_SECURE_FULL "The secure build of level 5" OFF)
mi_text_option(MI_PADDING "Find writes outside of blocks and into freed ones: ON, OFF; empty: in Debug builds")
option(MI_SKIP_COLLECT_ON_EXIT "Builds with checks do not collect at the end" OFF)
option(MI_NO_THP "Ask for no huge pages unless told otherwise" OFF)
mi_text_option(MI_EXTRA_CPPDEFS "Further definitions, as 'A=1;B=2'")

option(MI_GUARDED "Guard one block in 4000 unless the program or its user says otherwise" OFF)

# For developers.
option(MI_BUILD_TESTS "Build the test programs" OFF)
option(MI_BUILD_FUZZ "Build the fuzz targets (needs clang and its runtime)" OFF)
option(MI_WERROR "Warnings are errors" OFF)
option(MI_OS_PLAIN "Use nothing of the system but what POSIX has" OFF)
option(MI_TINY "Tiny constants, so that rare paths run often" OFF)
mi_text_option(MI_DEBUG "Level of the checks compiled in: 0 none, 1 cheap, 2 more, 3 all")

# The build type: Release, unless the name of the build folder asks for something else. A project that
# adds this one keeps its own.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
  if(CMAKE_BINARY_DIR MATCHES "(debug|asan|tsan|ubsan|valgrind)$")
    set(CMAKE_BUILD_TYPE Debug)
  endif()
  if(NOT MI_IS_PART)
    set(CMAKE_BUILD_TYPE ${CMAKE_BUILD_TYPE} CACHE STRING "Build type" FORCE)
  endif()
endif()

# The level of the secure build: asked for by the option, or by the name of the build folder.
string(TOUPPER "${MI_SECURE}" mi_secure)
if(mi_secure STREQUAL "")
  set(mi_secure 0)
  if(CMAKE_BINARY_DIR MATCHES "secure$")
    set(mi_secure 4)
  endif()
elseif(mi_secure MATCHES "^(ON|TRUE|YES)$")
  set(mi_secure 4)
elseif(mi_secure MATCHES "^(OFF|FALSE|NO)$")
  set(mi_secure 0)
elseif(NOT mi_secure MATCHES "^[0-5]$")
  message(FATAL_ERROR "MI_SECURE is \"${MI_SECURE}\", must be ON, OFF or a level of 0 to 5")
endif()
if(MI_SECURE_FULL)
  set(mi_secure 5)
endif()

# Options of the library this one is compatible with: some are another way to say what we have; all others
# are accepted, and a build that asks for one is told what becomes of it: a warning, when it may rely on
# what it does not get.
if(MI_DEBUG_FULL OR MI_CHECK_FULL)
  set(MI_DEBUG 3)
elseif(MI_DEBUG_INTERNAL)
  set(MI_DEBUG 2)
endif()
foreach(name TRACK_ETW DEBUG_TSAN DEBUG_UBSAN)
  if(MI_${name})
    message(WARNING "MI_${name} has no effect on the code yet")
  endif()
endforeach()
foreach(
  word
  "FREE_IS_CHECKED: it always is" "LIBC_MUSL: musl is recognised"
  "USE_CXX: the library is C, and throws as C++ does" "NO_USE_CXX: the library is C"
  "OPT_ARCH: use CMAKE_C_FLAGS" "NO_OPT_ARCH: nothing is done" "OPT_SIMD: use CMAKE_C_FLAGS"
  "SEE_ASM: use CMAKE_C_FLAGS, -save-temps" "USE_LIBATOMIC: it is not needed"
  "TLS_MODEL_LOCAL: use MI_LOCAL_DYNAMIC_TLS" "TLS_MODEL_PTHREADS: use MI_LOCAL_DYNAMIC_TLS"
  "TLS_RECURSE_GUARD: it is not needed" "OSX_INTERPOSE: on macOS the shared library always does" "OSX_ZONE: on macOS all do, with MI_OVERRIDE"
  "WIN_REDIRECT: this is for Windows" "WIN_DIRECT_TLS: this is for Windows"
  "WIN_INIT_USE_RAW_DLLMAIN: this is for Windows" "WIN_INIT_USE_TLS_DLLMAIN: this is for Windows"
  "WIN_USE_FLS: this is for Windows")
  string(REGEX REPLACE "^([A-Z_]+): (.*)$" "\\1;\\2" word "${word}")
  list(GET word 0 name)
  list(GET word 1 reason)
  if(NOT "${MI_${name}}" STREQUAL "")
    message(STATUS "libmimalloc: MI_${name} has no effect (${reason})")
  endif()
endforeach()

# Which tool is told about blocks (src/base/tool.h).
set(MI_TRACK_DEFINITIONS "")
if(MI_TRACK_ASAN AND MI_TRACK_VALGRIND)
  message(FATAL_ERROR "MI_TRACK_ASAN and MI_TRACK_VALGRIND are both ON: one build serves one tool")
elseif(MI_TRACK_ASAN)
  # Its run-time replaces malloc, and there can be one.
  set(MI_OVERRIDE OFF)
  set(MI_TRACK_DEFINITIONS MI_TRACK_ASAN=1)
elseif(MI_TRACK_VALGRIND)
  include(CheckIncludeFile)
  check_include_file(valgrind/memcheck.h MI_HAS_MEMCHECK_H)
  if(NOT MI_HAS_MEMCHECK_H)
    message(FATAL_ERROR "MI_TRACK_VALGRIND needs the header valgrind/memcheck.h (Debian: package valgrind)")
  endif()
  set(MI_TRACK_DEFINITIONS MI_TRACK_VALGRIND=1)
endif()
if(mi_secure GREATER 0 AND NOT MI_TRACK_DEFINITIONS STREQUAL "")
  message(FATAL_ERROR "MI_SECURE and a tool (MI_TRACK_ASAN, MI_TRACK_VALGRIND) are both ON: one of them knows the blocks")
endif()

# What everything is compiled with, be it said by a user or by a parent project.
string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" mi_type_flags)
get_directory_property(mi_sanitizers COMPILE_OPTIONS)
string(REGEX MATCHALL "-fsanitize=[a-z,-]+" mi_sanitizers "${mi_sanitizers} ${CMAKE_C_FLAGS} ${${mi_type_flags}}")
if(MI_OVERRIDE AND mi_sanitizers MATCHES "address|leak|memory|thread")
  message(STATUS "libmimalloc: malloc is that of the sanitizer, and not replaced")
  set(MI_OVERRIDE OFF)
endif()

if(NOT MI_BUILD_SHARED OR NOT MI_OVERRIDE)
  set(MI_BUILD_COMPAT OFF)
endif()

# Memory tags (src/core/pages/tags.h). What else writes behind blocks, or knows their state, is left out.
if(MI_MTE)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
    message(FATAL_ERROR "MI_MTE is ON: only 64-bit ARM has tags of memory, and this build is for ${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  if(mi_secure GREATER 0 OR NOT MI_TRACK_DEFINITIONS STREQUAL "")
    message(FATAL_ERROR "MI_MTE, MI_SECURE and a tool (MI_TRACK_ASAN, MI_TRACK_VALGRIND): only one of them can be ON")
  endif()
endif()

# Whether the library itself watches what is around blocks (src/core/pages/track.h).
set(mi_padding ${MI_PADDING})
if(MI_NO_PADDING)
  set(mi_padding OFF)
elseif("${mi_padding}" STREQUAL "")
  set(mi_padding OFF)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND MI_TRACK_DEFINITIONS STREQUAL "" AND NOT MI_MTE)
    set(mi_padding ON)
  endif()
endif()
if(mi_padding AND NOT MI_TRACK_DEFINITIONS STREQUAL "")
  message(FATAL_ERROR "MI_PADDING and a tool (MI_TRACK_ASAN, MI_TRACK_VALGRIND) are both ON: one watches the blocks")
endif()

if(mi_padding AND MI_MTE)
  message(FATAL_ERROR "MI_PADDING and MI_MTE are both ON: one watches the blocks")
endif()

# The level: named by number or as ON/OFF, else what the build type implies.
string(TOUPPER "${MI_DEBUG}" mi_level)
if(MI_NO_DEBUG OR mi_level MATCHES "^(OFF|FALSE|NO)$")
  set(mi_level 0)
elseif(mi_level MATCHES "^(ON|TRUE|YES)$")
  set(mi_level 1)
elseif(mi_level STREQUAL "")
  set(mi_level 0)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(mi_level 2)
  endif()
elseif(NOT mi_level MATCHES "^[0-3]$")
  message(FATAL_ERROR "MI_DEBUG is \"${MI_DEBUG}\", must be 0, 1, 2 or 3")
endif()
set(MI_LEVEL_DEFINITIONS MI_DEBUG=${mi_level})
if(MI_TINY)
  list(APPEND MI_LEVEL_DEFINITIONS MI_TINY=1)
endif()
if(MI_OS_PLAIN)
  list(APPEND MI_LEVEL_DEFINITIONS MI_OS_PLAIN=1)
endif()
if(MI_GUARDED)
  list(APPEND MI_LEVEL_DEFINITIONS MI_GUARDED=1)
endif()
if(mi_secure GREATER 0)
  list(APPEND MI_LEVEL_DEFINITIONS MI_SECURE=${mi_secure})
endif()
if(MI_MTE)
  list(APPEND MI_LEVEL_DEFINITIONS MI_MTE=1)
endif()
if(mi_padding)
  list(APPEND MI_LEVEL_DEFINITIONS MI_PADDING=1)
endif()
foreach(name SHOW_ERRORS XMALLOC SKIP_COLLECT_ON_EXIT NO_THP)
  if(MI_${name})
    list(APPEND MI_LEVEL_DEFINITIONS MI_${name}=1)
  endif()
endforeach()
