# Test programs. A new file in one of the folders is picked up by itself:
#   test/unit/*.c    one program each, on the fake operating system, every module its own object file
#   test/api/*.c     one program each, public header only; compiled once, linked with every flavour
#   test/stress/*.c  the same without cmocka; the exit code tells
#   test/soak/       two programs that soak.py runs: one linked with the library, one with no allocator
#   test/lib/*.c     helpers linked to all of them (os_fake.c, hooks_fake.c, unit.c: to unit tests only)
# Programs of the folders api and stress may be C++ (*.cpp) too.
# The list of what was built goes to tests.json, which test/test_native.py reads.

find_library(MI_CMOCKA cmocka)
find_path(MI_CMOCKA_INCLUDE cmocka.h)
if(NOT MI_CMOCKA OR NOT MI_CMOCKA_INCLUDE)
  message(FATAL_ERROR "cmocka is missing: make deps installs it, or configure without MI_BUILD_TESTS")
endif()
if(NOT MI_BUILD_SHARED)
  message(FATAL_ERROR "MI_BUILD_TESTS needs MI_BUILD_SHARED")
endif()

set(MI_TEST_DIR ${CMAKE_CURRENT_SOURCE_DIR}/test)
set(MI_TEST_MANIFEST "")
set(MI_TEST_EMULATOR "")
if(CMAKE_CROSSCOMPILING_EMULATOR)
  string(JOIN "\", \"" MI_TEST_EMULATOR ${CMAKE_CROSSCOMPILING_EMULATOR})
  set(MI_TEST_EMULATOR "\"${MI_TEST_EMULATOR}\"")
endif()

# -- What test programs are linked with.

file(GLOB mi_lib_sources CONFIGURE_DEPENDS ${MI_TEST_DIR}/lib/*.c)
set(mi_unit_helpers "/(os_fake|hooks_fake|unit)\\.c$")
list(FILTER mi_lib_sources EXCLUDE REGEX "${mi_unit_helpers}")
if(WIN32) # what the programs use of POSIX
  list(FILTER mi_lib_sources EXCLUDE REGEX "/spawn\\.c$")
  list(APPEND mi_lib_sources ${MI_TEST_DIR}/windows/spawn.c ${MI_TEST_DIR}/windows/posix/posix.c)
  # All that they link with is in them, but for the library and cmocka.
  find_package(Threads REQUIRED)
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static>)
  get_filename_component(mi_cmocka_folder ${MI_CMOCKA_INCLUDE}/../bin ABSOLUTE)
endif()
if(mi_lib_sources)
  add_library(mi-testlib STATIC ${mi_lib_sources})
  mi_compile_flags(mi-testlib)
  target_include_directories(mi-testlib PUBLIC ${MI_TEST_DIR}/lib PRIVATE include)
  if(WIN32)
    target_include_directories(mi-testlib BEFORE PRIVATE ${MI_TEST_DIR}/windows/posix)
  endif()
else()
  add_library(mi-testlib INTERFACE)
  target_include_directories(mi-testlib INTERFACE ${MI_TEST_DIR}/lib)
endif()

# mi_unit_library(TARGET DEFINITION...): the core and what is below it, as separate translation
# units, on os_fake.c; hooks_fake.c is in the place of the layers above.
file(GLOB mi_unit_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/base/*.c
     ${CMAKE_CURRENT_SOURCE_DIR}/src/core/*/*.c)
file(GLOB mi_unit_helper_sources CONFIGURE_DEPENDS ${MI_TEST_DIR}/lib/*.c)
list(FILTER mi_unit_helper_sources INCLUDE REGEX "${mi_unit_helpers}")
list(APPEND mi_unit_sources ${CMAKE_CURRENT_SOURCE_DIR}/src/os/assert.c ${mi_unit_helper_sources})
function(mi_unit_library target)
  add_library(${target} OBJECT ${mi_unit_sources})
  mi_compile_flags(${target})
  target_compile_definitions(${target} PUBLIC MI_UNIT_TEST=1 MI_DEBUG=3 ${ARGN} ${MI_EXTRA_CPPDEFS})
  target_include_directories(${target} PUBLIC include src ${MI_TEST_DIR}/lib ${MI_CMOCKA_INCLUDE})
  # gcc 12 tests the flags of an addition for the address of a thread-local variable being null, and
  # the linker makes that addition a lea: false findings. Not with this model.
  if(CMAKE_C_FLAGS MATCHES "fsanitize=undefined")
    target_compile_options(${target} PUBLIC -ftls-model=local-exec)
  endif()
  target_link_libraries(${target} PUBLIC Threads::Threads ${MI_ATOMIC_LIBRARY})
endfunction()

# -- One program and its line in the list.

function(mi_test_program target group flavour source)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                             ${CMAKE_CURRENT_BINARY_DIR}/test/${flavour}/${group})
  get_filename_component(name ${source} NAME_WE)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  file(RELATIVE_PATH shown ${CMAKE_CURRENT_SOURCE_DIR} ${source})
  set(line "{\"group\": \"${group}\", \"name\": \"${name}\", \"flavour\": \"${flavour}\",")
  string(APPEND line " \"source\": \"${shown}\", \"path\": \"$<TARGET_FILE:${target}>\",")
  set(emulator ${MI_TEST_EMULATOR})
  if(flavour STREQUAL "mte" AND emulator)
    # Qemu up to 7.2 takes the instruction that clears a cache line for a fault if its address has a tag: one
    # of libc's functions for this kind of processor does without.
    string(APPEND emulator ", \"-cpu\", \"max\", \"-E\", \"GLIBC_TUNABLES=glibc.cpu.name=kunpeng920\"")
  endif()
  if(WIN32 AND emulator AND NOT group STREQUAL "windows") # they count blocks, and those of the C run-time would count
    string(APPEND emulator ", \"-n\"")
  endif()
  if(WIN32 AND emulator) # where libraries are
    string(APPEND emulator ", \"-p\", \"$<TARGET_FILE_DIR:mi-flavour-${flavour}>\", \"-p\", \"${mi_cmocka_folder}\"")
  endif()
  string(APPEND line " \"emulator\": [${emulator}]}")
  list(APPEND MI_TEST_MANIFEST "${line}")
  set(MI_TEST_MANIFEST "${MI_TEST_MANIFEST}" PARENT_SCOPE)
endfunction()

# The programs themselves are compiled in half of the time with -O1; what they test is compiled as shipped.
function(mi_test_flags target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON CXX_STANDARD 17)
  # -funwind-tables: a stack can be read through functions of C, as on most processors, on 32-bit ARM, too.
  target_compile_options(${target} PRIVATE -Wall -Wextra -g -funwind-tables $<$<CONFIG:Release>:-O1> $<$<BOOL:${MI_WERROR}>:-Werror>)
  target_include_directories(${target} PRIVATE ${MI_CMOCKA_INCLUDE})
  if(WIN32)
    target_include_directories(${target} BEFORE PRIVATE ${MI_TEST_DIR}/windows/posix)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE __USE_MINGW_ANSI_STDIO=1)
    # Tests ask for more than there is of all: this compiler tells them for this system only.
    target_compile_options(${target} PRIVATE $<$<C_COMPILER_ID:Clang>:-Wno-builtin-assume-aligned-alignment>)
    # This one knows the formats of the oldest C library only, for cmocka.
    target_compile_options(${target} PRIVATE $<$<C_COMPILER_ID:GNU>:-Wno-format;-Wno-format-extra-args>)
  endif()
endfunction()

# -- Unit tests.

file(GLOB mi_unit_tests CONFIGURE_DEPENDS ${MI_TEST_DIR}/unit/*.c)
set(mi_unit_flavours debug)
if(NOT CMAKE_CROSSCOMPILING)
  list(APPEND mi_unit_flavours tiny)
endif()
if(CMAKE_SIZEOF_VOID_P EQUAL 4 OR WIN32) # the fake system has addresses of 47 bits, and each test is a child of fork
  set(mi_unit_tests "")
endif()
# They have registers of this processor.
if(CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(FILTER mi_unit_tests EXCLUDE REGEX "/(os|override)_(free|net|open)bsd\\.c$")
endif()
if(mi_unit_tests)
  mi_unit_library(mi-unit)
  if("tiny" IN_LIST mi_unit_flavours)
    mi_unit_library(mi-unit-tiny MI_TINY=1)
  endif()
endif()
foreach(source IN LISTS mi_unit_tests)
  get_filename_component(name ${source} NAME_WE)
  foreach(flavour IN LISTS mi_unit_flavours)
    set(library mi-unit)
    if(flavour STREQUAL "tiny")
      set(library mi-unit-tiny)
    endif()
    set(target unit-${name}-${flavour})
    add_executable(${target} ${source})
    mi_test_flags(${target})
    if(name MATCHES "bsd$")
      target_include_directories(${target} BEFORE PRIVATE ${MI_TEST_DIR}/bsd/include)
    endif()
    target_link_libraries(${target} PRIVATE ${library} mi-testlib ${MI_CMOCKA})
    mi_test_program(${target} unit ${flavour} ${source})
  endforeach()
endforeach()

# -- API and stress tests: against the library as shipped, one with every check, one with every check
#    and tiny constants, one with every check that watches what is around blocks, a secure one with
#    every check, and one that knows nothing of the system but POSIX.

set(mi_flavours release)
if(NOT CMAKE_CROSSCOMPILING)
  list(APPEND mi_flavours debug tiny)
  if(MI_TRACK_DEFINITIONS STREQUAL "")
    list(APPEND mi_flavours padded secure full plain)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  list(APPEND mi_flavours mte)
endif()
file(GLOB mi_api_tests CONFIGURE_DEPENDS ${MI_TEST_DIR}/api/*.c ${MI_TEST_DIR}/api/*.cpp)
file(GLOB mi_stress_tests CONFIGURE_DEPENDS ${MI_TEST_DIR}/stress/*.c ${MI_TEST_DIR}/stress/*.cpp)
if(CMAKE_CROSSCOMPILING)
  if(NOT MI_TEST_STRESS) # under an emulator they take minutes
    set(mi_stress_tests "")
  endif()
  list(FILTER mi_stress_tests EXCLUDE REGEX "\\.cpp$")
  list(FILTER mi_api_tests EXCLUDE REGEX "\\.cpp$")
endif()
# They test what only the processor does.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  list(FILTER mi_api_tests EXCLUDE REGEX "/tagged[^/]*$")
endif()
# They test what only POSIX, Linux or glibc has (test/windows/test_windows.py says what).
if(WIN32)
  if(MI_TEST_SOME) # Wine is slow to start
    list(FILTER mi_api_tests INCLUDE REGEX "/(aligned|basic|realloc|statistics|usable)\\.c$")
  else()
    list(APPEND mi_flavours debug secure)
  endif()
  file(STRINGS ${MI_TEST_DIR}/windows/without.txt mi_without REGEX "^[a-z]")
  foreach(line IN LISTS mi_without)
    string(REGEX REPLACE "^([a-z0-9_]+/[a-z0-9_]+): .*" "\\1" name "${line}")
    list(FILTER mi_api_tests EXCLUDE REGEX "/${name}\\.[a-z]*$")
    list(FILTER mi_stress_tests EXCLUDE REGEX "/${name}\\.[a-z]*$")
  endforeach()
endif()
if(APPLE) # it has a model of zones where zones are
  list(FILTER mi_api_tests EXCLUDE REGEX "/zones\\.c$")
endif()
# They test names of glibc.
if(MI_CROSS STREQUAL "musl")
  list(FILTER mi_api_tests EXCLUDE REGEX "/glibc_names\\.c$")
  list(FILTER mi_stress_tests EXCLUDE REGEX "/(failing|sandbox)\\.c$")
endif()
# There is no secure build for 32 bits.
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  list(FILTER mi_api_tests EXCLUDE REGEX "/secure[^/]*\\.c$")
endif()
if(NOT MI_OVERRIDE) # they test the names of malloc, and replace functions that a sanitizer replaces
  list(FILTER mi_stress_tests EXCLUDE REGEX "/(failing|sandbox)[^/]*$")
  list(FILTER mi_api_tests EXCLUDE REGEX "/places\\.c$")
endif()
if("${mi_api_tests}${mi_stress_tests}" MATCHES "\\.cpp")
  enable_language(CXX)
endif()

foreach(flavour IN LISTS mi_flavours)
  if(flavour STREQUAL "release")
    add_library(mi-flavour-release ALIAS mimalloc)
    continue()
  endif()
  set(definitions MI_DEBUG=3 MI_SHOW_ERRORS=0) # the tests say when they want to see them
  if(flavour STREQUAL "tiny")
    list(APPEND definitions MI_TINY=1)
  elseif(flavour STREQUAL "padded")
    list(APPEND definitions MI_PADDING=1)
  elseif(flavour STREQUAL "plain")
    list(APPEND definitions MI_OS_PLAIN=1)
  elseif(flavour STREQUAL "secure")
    list(APPEND definitions MI_SECURE=4 MI_DEFAULT_ABORT_ON_MISUSE=1)
  elseif(flavour STREQUAL "full")
    list(APPEND definitions MI_SECURE=5 MI_DEFAULT_ABORT_ON_MISUSE=1)
  elseif(flavour STREQUAL "mte")
    set(definitions MI_DEBUG=1 MI_SHOW_ERRORS=0 MI_MTE=1 MI_DEFAULT_ABORT_ON_MISUSE=1)
  endif()
  mi_library(mi-flavour-${flavour} SHARED ${definitions})
  set_target_properties(mi-flavour-${flavour} PROPERTIES OUTPUT_NAME mimalloc)
  foreach(kind LIBRARY RUNTIME ARCHIVE) # the last two: of Windows
    set_target_properties(mi-flavour-${flavour} PROPERTIES ${kind}_OUTPUT_DIRECTORY
                                                           ${CMAKE_CURRENT_BINARY_DIR}/flavour/${flavour})
  endforeach()
endforeach()

foreach(source IN LISTS mi_api_tests mi_stress_tests)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(group ${source} DIRECTORY)
  get_filename_component(group ${group} NAME)
  set(objects ${group}-${name}-object)
  add_library(${objects} OBJECT ${source})
  mi_test_flags(${objects})
  # The program measures our malloc: the compiler must not take a pair of calls away.
  target_compile_options(${objects} PRIVATE -fno-builtin)
  target_include_directories(${objects} PRIVATE include ${MI_TEST_DIR}/lib)
  target_link_libraries(${objects} PRIVATE Threads::Threads)
  if(NOT MI_OVERRIDE OR WIN32) # there, to replace malloc has tests of its own
    target_compile_definitions(${objects} PRIVATE LOAD_BY_NAME)
  endif()
  foreach(flavour IN LISTS mi_flavours)
    if((name MATCHES "^padded" AND NOT flavour STREQUAL "padded") OR (name MATCHES "^secure" AND NOT flavour MATCHES "^(secure|full)$"))
      continue()
    endif()
    # With memory tags those that allocate and free in many ways, and take seconds under the emulator.
    if(flavour STREQUAL "mte" AND NOT name MATCHES "^(tagged.*|aligned|basic|describe|glibc_names|new|posix|property|realloc|strings|theap|usable|visit)$")
      continue()
    endif()
    if(name STREQUAL "tagged_memory" AND NOT flavour STREQUAL "mte")
      continue()
    endif()
    # Level 5 is the secure build with other pages.
    if(flavour STREQUAL "full" AND NOT name MATCHES "^(secure.*|property|aligned|heap|failing|threads|heaps)$")
      continue()
    endif()
    # It takes 45 seconds there, and level 5, which makes more system calls, has it; padded makes those of debug.
    if(flavour MATCHES "^(secure|padded)$" AND name STREQUAL "failing")
      continue()
    endif()
    set(target ${group}-${name}-${flavour})
    add_executable(${target} $<TARGET_OBJECTS:${objects}>)
    get_filename_component(extension ${source} EXT)
    if(extension STREQUAL ".cpp")
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    else()
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    endif()
    if(NOT WIN32 AND NOT APPLE)
      target_link_options(${target} PRIVATE -Wl,--no-as-needed)
    endif()
    target_link_libraries(${target} PRIVATE mi-testlib mi-flavour-${flavour} Threads::Threads)
    if(group STREQUAL "api")
      target_link_libraries(${target} PRIVATE ${MI_CMOCKA})
    endif()
    mi_test_program(${target} ${group} ${flavour} ${source})
  endforeach()
endforeach()

# -- What only Windows has. One program loads the library by itself, and one is built with each of two C run-times.

# mi_windows_program(NAME SOURCE LIBRARY...)
function(mi_windows_program name source)
  foreach(flavour IN LISTS mi_flavours)
    set(target windows-${name}-${flavour})
    add_executable(${target} ${source})
    mi_test_flags(${target})
    target_compile_options(${target} PRIVATE -fno-builtin)
    target_compile_definitions(${target} PRIVATE IS_UCRT=$<STREQUAL:${name},redirect_ucrt>)
    target_include_directories(${target} PRIVATE include src ${MI_TEST_DIR}/lib)
    target_link_libraries(${target} PRIVATE ${ARGN} mi-testlib ${MI_CMOCKA})
    if(NOT name STREQUAL "late")
      target_link_libraries(${target} PRIVATE mi-flavour-${flavour})
    endif()
    mi_test_program(${target} windows ${flavour} ${source})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  endforeach()
  set(MI_TEST_MANIFEST "${MI_TEST_MANIFEST}" PARENT_SCOPE)
endfunction()

if(WIN32)
  find_program(MI_DLLTOOL NAMES x86_64-w64-mingw32-dlltool llvm-dlltool dlltool REQUIRED)
  set(mi_ucrt ${CMAKE_CURRENT_BINARY_DIR}/libtestcrt.a)
  add_custom_command(
    OUTPUT ${mi_ucrt}
    COMMAND ${MI_DLLTOOL} -m i386:x86-64 -d ${MI_TEST_DIR}/windows/ucrtbase.def -l ${mi_ucrt}
    DEPENDS ${MI_TEST_DIR}/windows/ucrtbase.def)
  add_custom_target(mi-ucrt DEPENDS ${mi_ucrt})
  foreach(name os guards ending late redirect)
    mi_windows_program(${name} ${MI_TEST_DIR}/windows/${name}.c)
  endforeach()
  mi_windows_program(redirect_ucrt ${MI_TEST_DIR}/windows/redirect.c ${mi_ucrt})
  foreach(flavour IN LISTS mi_flavours)
    add_dependencies(windows-redirect_ucrt-${flavour} mi-ucrt)
  endforeach()
endif()

# -- The soak: not in the list, because it takes arguments and soak.py judges what it did.
# A sanitizer's own memory would count as what the programs use.

if(MI_OVERRIDE AND NOT CMAKE_CROSSCOMPILING)
  set(mi_soak_sources soak blocks phases)
  list(TRANSFORM mi_soak_sources PREPEND ${MI_TEST_DIR}/soak/)
  list(TRANSFORM mi_soak_sources APPEND .c)
  add_executable(soak ${mi_soak_sources} ${MI_TEST_DIR}/soak/own.c)
  target_link_options(soak PRIVATE -Wl,--no-as-needed)
  target_link_libraries(soak PRIVATE mi-flavour-release)
  add_executable(soak-plain ${mi_soak_sources} ${MI_TEST_DIR}/soak/plain.c)
  foreach(target soak soak-plain)
    mi_test_flags(${target})
    target_compile_options(${target} PRIVATE -fno-builtin)
    target_include_directories(${target} PRIVATE include ${MI_TEST_DIR}/lib)
    target_link_libraries(${target} PRIVATE Threads::Threads)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                               ${CMAKE_CURRENT_BINARY_DIR}/test/soak)
  endforeach()
endif()

string(JOIN ",\n  " mi_manifest ${MI_TEST_MANIFEST})
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tests.json CONTENT "[\n  ${mi_manifest}\n]\n")
