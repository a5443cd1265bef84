# Compiler flags shared by every target.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(MI_WARNINGS -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes)
if(MI_WERROR)
  list(APPEND MI_WARNINGS -Werror)
endif()
set(MI_C_WARNINGS $<$<COMPILE_LANGUAGE:C>:${MI_WARNINGS}>)

# -fno-builtin-malloc: the compiler must not reason about a malloc that we define.
# initial-exec: reading a thread-local variable must never call into the dynamic loader, which
# allocates. -fexceptions: an exception thrown by a new-handler passes through our frames.
set(MI_CODE_FLAGS
    -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -fno-plt -fexceptions -g)

include(CheckCCompilerFlag)
check_c_compiler_flag(-fno-semantic-interposition MI_HAS_NO_INTERPOSITION)
if(MI_HAS_NO_INTERPOSITION)
  list(APPEND MI_CODE_FLAGS -fno-semantic-interposition)
endif()

# Small code that starts small: everything up to `.fini` fits the first 64 KiB, which is what the
# kernel maps around the first fault. The fast paths are the same instructions as with -O3.
check_c_compiler_flag(-fno-align-jumps MI_HAS_NO_ALIGN)
if(MI_HAS_NO_ALIGN)
  set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG -fno-align-loops -fno-align-jumps")
else()
  set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

function(mi_compile_flags target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON)
  target_compile_options(${target} PRIVATE ${MI_C_WARNINGS} ${MI_CODE_FLAGS})
endfunction()
