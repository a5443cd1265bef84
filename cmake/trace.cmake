# What records the calls of a program, and what replays them (src/trace/): a library that is preloaded, a program for one
# replay, and a script that compares allocators by it. None of them contains the allocator.

set(MI_TRACE_SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/src/trace)

# A recorded call runs through all of these files: they are compiled as one.
add_library(mimalloc-trace SHARED ${MI_TRACE_SOURCE}/recorder.c)
target_link_options(mimalloc-trace PRIVATE -Wl,-Bsymbolic-functions ${MI_LINK_COMPLETE})
# In a folder of its own, as it is nothing to link with.
set(MI_TRACE_FOLDER mimalloc-trace)
set_target_properties(mimalloc-trace PROPERTIES NO_SONAME ON LINKER_LANGUAGE C
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${MI_TRACE_FOLDER})

# Where exceptions can pass a function that cleans up, operator new and delete are recorded as such. Elsewhere (Debian's
# musl-gcc, whose unwinder needs glibc) they are seen if they call malloc.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-shared -fPIC -fexceptions -w")
set(CMAKE_REQUIRED_LINK_OPTIONS ${MI_LINK_COMPLETE})
check_c_source_compiles("static void mi_leave(int* p) { *p = 0; }
  void (*mi_call)(void); void mi_enter(void) { int x __attribute__((cleanup(mi_leave))) = 1; mi_call(); }" MI_HAS_CLEANUP)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(NOT MI_HAS_CLEANUP)
  target_compile_definitions(mimalloc-trace PRIVATE MI_TRACE_WITHOUT_CXX)
endif()

set(mi_player player play plan reader region)
list(TRANSFORM mi_player PREPEND ${MI_TRACE_SOURCE}/)
list(TRANSFORM mi_player APPEND .c)
add_executable(mimalloc-player ${mi_player})
set_target_properties(mimalloc-player PROPERTIES LINKER_LANGUAGE C)

foreach(target mimalloc-trace mimalloc-player)
  mi_compile_flags(${target})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_link_libraries(${target} PRIVATE ${MI_THREADS} ${CMAKE_DL_LIBS} ${MI_ATOMIC_LIBRARY})
endforeach()

# Beside the player, where it looks for it; the recorder is beside it, too, or where it is installed: relative to it, so that
# an installed tree can be moved.
file(RELATIVE_PATH MI_TRACE_FROM_BIN ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/${MI_TRACE_FOLDER})
set(MI_REPLAY ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-replay)
configure_file(${MI_TRACE_SOURCE}/replay.py ${MI_REPLAY} @ONLY)
