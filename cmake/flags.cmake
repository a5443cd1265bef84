# Compiler flags shared by every target.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(MI_WARNINGS -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes)
if(MI_WERROR)
  list(APPEND MI_WARNINGS -Werror)
endif()
if(MSVC) # clang-cl, where -Wall is all that the compiler has
  set(MI_WARNINGS /W4 $<$<BOOL:${MI_WERROR}>:/WX>)
endif()
# The warnings that a parent project asks for are those of its own files. These here use GNU's extensions of C, so -Wpedantic
# with -Werror would end its build, as would any warning that a later compiler invents.
if(MI_IS_PART AND NOT MI_WERROR)
  set(MI_WARNINGS -w)
endif()
set(MI_C_WARNINGS $<$<COMPILE_LANGUAGE:C>:${MI_WARNINGS}>)

# -fno-builtin-malloc: the compiler must not reason about a malloc that we define.
# The TLS model is that of every thread-local variable (base/compiler.h). -fexceptions: an exception
# thrown by a new-handler passes through our frames.
set(MI_TLS_MODEL initial-exec)
if(MI_LOCAL_DYNAMIC_TLS)
  set(MI_TLS_MODEL local-dynamic)
endif()
set(MI_CODE_FLAGS -fvisibility=hidden -fno-builtin-malloc -g)
if(WIN32) # nothing is visible that is not exported by name
  set(MI_CODE_FLAGS -fno-builtin-malloc -g -fexceptions)
elseif(NOT MI_IS_WASM) # which has one model, and other exceptions
  list(APPEND MI_CODE_FLAGS -ftls-model=${MI_TLS_MODEL} -fno-plt -fexceptions)
endif()
if(APPLE) # there are no thread-local variables (src/os/self_table.c), and calls always go through a table
  list(REMOVE_ITEM MI_CODE_FLAGS -ftls-model=${MI_TLS_MODEL} -fno-plt)
endif()
if(MSVC) # clang-cl, which takes the options of the other compiler, and these behind /clang:
  set(MI_CODE_FLAGS /clang:-fno-builtin-malloc -D_CRT_SECURE_NO_WARNINGS) # which are about getenv
endif()

include(CheckCCompilerFlag)
if(MI_IS_WASM OR WIN32 OR APPLE) # there is nothing of what is asked for below
  set(MI_HAS_NO_INTERPOSITION OFF)
  set(MI_HAS_NO_ALIGN OFF)
  set(MI_HAS_LAYOUT OFF)
endif()
check_c_compiler_flag(-fno-semantic-interposition MI_HAS_NO_INTERPOSITION)
if(MI_HAS_NO_INTERPOSITION)
  list(APPEND MI_CODE_FLAGS -fno-semantic-interposition)
endif()

# Small code that starts small (see layout.ld). The fast paths are the same instructions as with -O3.
check_c_compiler_flag(-fno-align-jumps MI_HAS_NO_ALIGN)
if(NOT MSVC AND CMAKE_C_FLAGS_RELEASE MATCHES "^ *-O3 -DNDEBUG *$") # of CMake: nobody has said anything else
  set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
  if(MI_HAS_NO_ALIGN)
    string(APPEND CMAKE_C_FLAGS_RELEASE " -fno-align-loops -fno-align-jumps")
  endif()
endif()

# Two builds of the same files are the same, whatever their folders are called. Not where one debugs: there the names in the
# debug information are those of the files.
check_c_compiler_flag(-ffile-prefix-map=/a=/b MI_HAS_PREFIX_MAP)
if(MI_HAS_PREFIX_MAP AND NOT MSVC AND CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND MI_CODE_FLAGS -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=.) # the last one comes first
endif()

function(mi_compile_flags target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON)
  target_compile_options(${target} PRIVATE ${MI_C_WARNINGS} ${MI_CODE_FLAGS})
endfunction()

# A shared library must find all that it needs when it is linked: a mistake of ours is seen there. Not on OpenBSD, where libraries
# are linked without libc, and not with a sanitizer, whose functions clang puts into programs only. A parent project may name one
# where it is not seen here, as for our targets.
set(MI_LINK_COMPLETE -Wl,-z,defs)
if(MI_IS_PART OR CMAKE_SYSTEM_NAME STREQUAL "OpenBSD" OR NOT "${mi_sanitizers}" STREQUAL "")
  set(MI_LINK_COMPLETE "")
endif()

# mi_link_layout(TARGET): what each process uses in front (layout.ld), where the linker can do that.
include(CheckCSourceCompiles)
set(MI_LAYOUT_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/layout.ld)
set(CMAKE_REQUIRED_FLAGS "-shared -fPIC -w")
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-T,${MI_LAYOUT_SCRIPT})
check_c_source_compiles("int mi_layout(void) { return 1; }" MI_HAS_LAYOUT)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
function(mi_link_layout target)
  if(MI_HAS_LAYOUT)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections) # with both, the texts of each function have a section as well
    target_link_options(${target} PRIVATE -Wl,-T,${MI_LAYOUT_SCRIPT})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${MI_LAYOUT_SCRIPT})
  endif()
endfunction()
