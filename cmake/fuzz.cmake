# Fuzz targets: test/fuzz/*.c, one program each in bin/<target>-<flavour>, for libFuzzer of clang.
#
#   threads.c    the library as it is shipped but for its checks, on the real system, with the
#                thread sanitizer: its threads run at once
#   options.c    contains the library
#   the others   core and api, with what unit tests use beside them (the fake system, checks of all
#                structures), with the sanitizers for addresses and undefined behaviour
#
# debug has every check, tiny has tiny constants as well: for those targets that depend on them.
find_library(MI_CMOCKA cmocka)
find_path(MI_CMOCKA_INCLUDE cmocka.h)
if(NOT MI_CMOCKA OR NOT MI_CMOCKA_INCLUDE)
  message(FATAL_ERROR "cmocka is missing: make deps FOR=fuzz installs it")
endif()
set(MI_FUZZ_DIR ${CMAKE_CURRENT_SOURCE_DIR}/test/fuzz)
set(MI_FUZZ_LIB_DIR ${CMAKE_CURRENT_SOURCE_DIR}/test/lib)
set(MI_FUZZ_COVERAGE -fsanitize=fuzzer-no-link)
set(MI_FUZZ_ADDRESS ${MI_FUZZ_COVERAGE} -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
set(MI_FUZZ_THREAD -fsanitize=thread)

file(GLOB mi_fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/base/*.c
     ${CMAKE_CURRENT_SOURCE_DIR}/src/core/*/*.c ${CMAKE_CURRENT_SOURCE_DIR}/src/observe/*.c
     ${CMAKE_CURRENT_SOURCE_DIR}/src/api/*.c)
set(mi_fuzz_helpers
    ${CMAKE_CURRENT_SOURCE_DIR}/src/os/assert.c ${MI_FUZZ_LIB_DIR}/os_fake.c
    ${MI_FUZZ_LIB_DIR}/puppet.c ${MI_FUZZ_LIB_DIR}/shadow.c ${MI_FUZZ_LIB_DIR}/spawn.c
    ${MI_FUZZ_LIB_DIR}/unit.c ${MI_FUZZ_DIR}/lib/hooks_real.c ${MI_FUZZ_DIR}/lib/model.c)
set(mi_fuzz_tiny calls pagemap sizeclass threads)
file(GLOB mi_fuzz_targets CONFIGURE_DEPENDS ${MI_FUZZ_DIR}/*.c)

function(mi_fuzz_flags target sanitizer)
  mi_compile_flags(${target})
  target_compile_options(${target} PUBLIC -fno-builtin ${sanitizer})
  # libFuzzer takes an exit for a success.
  target_compile_definitions(${target} PUBLIC _GNU_SOURCE MI_SHOW_ERRORS=0 CHECK_ABORTS ${MI_EXTRA_CPPDEFS})
  target_include_directories(${target} PUBLIC include src ${MI_FUZZ_DIR}/lib ${MI_FUZZ_LIB_DIR}
                                              ${MI_CMOCKA_INCLUDE})
  target_link_libraries(${target} PUBLIC Threads::Threads)
endfunction()

foreach(flavour debug tiny)
  set(definitions MI_DEBUG=3)
  if(flavour STREQUAL "tiny")
    list(APPEND definitions MI_TINY=1)
  endif()
  # The library in one piece, as every artifact is, but with names that the helpers can see.
  add_library(mi-fuzz-library-${flavour} OBJECT ${mi_fuzz_sources})
  set_target_properties(mi-fuzz-library-${flavour} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  add_library(mi-fuzz-helpers-${flavour} OBJECT ${mi_fuzz_helpers})
  foreach(part library helpers)
    mi_fuzz_flags(mi-fuzz-${part}-${flavour} "${MI_FUZZ_ADDRESS}")
    target_compile_definitions(mi-fuzz-${part}-${flavour} PUBLIC MI_UNIT_TEST=1 ${definitions})
  endforeach()
  add_library(mi-fuzz-system-${flavour} OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/src/static.c)
  mi_fuzz_flags(mi-fuzz-system-${flavour} "${MI_FUZZ_THREAD}")
  target_compile_definitions(mi-fuzz-system-${flavour} PRIVATE MI_STATIC_LIB ${definitions})

  foreach(source IN LISTS mi_fuzz_targets)
    get_filename_component(name ${source} NAME_WE)
    if(flavour STREQUAL "tiny" AND NOT name IN_LIST mi_fuzz_tiny)
      continue()
    endif()
    set(target fuzz-${name}-${flavour})
    add_executable(${target} ${source})
    mi_compile_flags(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}-${flavour}
                                               RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bin)
    if(name STREQUAL "threads")
      mi_fuzz_flags(${target} "${MI_FUZZ_COVERAGE}")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:mi-fuzz-system-${flavour}>)
      target_compile_definitions(${target} PRIVATE MI_STATIC_LIB)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer ${MI_FUZZ_THREAD})
    elseif(name STREQUAL "options")
      mi_fuzz_flags(${target} "${MI_FUZZ_ADDRESS}")
      target_compile_definitions(${target} PRIVATE MI_STATIC_LIB ${definitions})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer ${MI_FUZZ_ADDRESS})
    else()
      target_link_libraries(${target} PRIVATE mi-fuzz-library-${flavour} mi-fuzz-helpers-${flavour}
                                              ${MI_CMOCKA})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer ${MI_FUZZ_ADDRESS})
    endif()
  endforeach()
endforeach()
