# The names of other allocators, for programs that are written for these (src/compat/): one library for each, which holds
# ours as well, under the name that such programs look for. They lie in a folder of their own, so that nothing finds them
# in the place of the system's unless it is told to.

set(MI_COMPAT_FOLDER ${MI_LIB_NAME}-compat)

# mi_compat_library(NAME VERSION SOURCE...): libNAME.so.VERSION. What the allocator is compiled to is used again.
function(mi_compat_library name version)
  set(target mimalloc-${name})
  list(APPEND ARGN compat_size.c)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/src/compat/)
  add_library(${target} SHARED $<TARGET_OBJECTS:mimalloc> ${ARGN})
  mi_compile_flags(${target})
  mi_link_shared(${target} ${MI_LEVEL_DEFINITIONS})
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/cmake/compat.list)
  target_link_options(${target} PRIVATE -Wl,--dynamic-list=${list})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${list})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${MI_EXTRA_CPPDEFS})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE ${MI_THREADS} ${MI_ATOMIC_LIBRARY})
  set_target_properties(
    ${target}
    PROPERTIES OUTPUT_NAME ${name}
               SOVERSION ${version}
               LINKER_LANGUAGE C
               LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${MI_COMPAT_FOLDER})
  set(MI_COMPAT_TARGETS ${MI_COMPAT_TARGETS} ${target} PARENT_SCOPE)
endfunction()

mi_compat_library(jemalloc 2 jemalloc.c jemalloc_arena.c jemalloc_ctl.c jemalloc_conf.c jemalloc_prof.c jemalloc_stats.c)

include(CheckSymbolExists)
check_symbol_exists(mallinfo malloc.h MI_HAS_MALLINFO)
set(mi_gperftools gperftools.c gperftools_tc.c gperftools_class.c)
if(MI_HAS_MALLINFO)
  list(APPEND mi_gperftools gperftools_info.c)
endif()
mi_compat_library(tcmalloc_minimal 4 ${mi_gperftools})
