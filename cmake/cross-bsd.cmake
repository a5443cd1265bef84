# Compile and link for a BSD, with zig, which has the headers of these systems and the names that are in their libraries:
# MI_CROSS is the system and the processor, as in "freebsd-x86_64"; freebsd, netbsd, openbsd; x86_64, aarch64. Nothing of it
# can be run here. zig comes from the folder that `scripts/setup.sh zig` fills, or is one on the path.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MI_CROSS)
if(NOT MI_CROSS MATCHES "^(freebsd|netbsd|openbsd)-(x86_64|aarch64)$")
  message(FATAL_ERROR "MI_CROSS is \"${MI_CROSS}\", must be freebsd, netbsd or openbsd, then -x86_64 or -aarch64")
endif()
set(mi_system ${CMAKE_MATCH_1})
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_2})
set(mi_names_freebsd FreeBSD)
set(mi_names_netbsd NetBSD)
set(mi_names_openbsd OpenBSD)
set(CMAKE_SYSTEM_NAME ${mi_names_${mi_system}})
file(GLOB mi_zig_folders ${CMAKE_CURRENT_LIST_DIR}/../build/zig/lib/python*/site-packages/ziglang)
find_program(MI_ZIG zig HINTS ${mi_zig_folders} NO_CMAKE_FIND_ROOT_PATH REQUIRED)
set(CMAKE_C_COMPILER ${MI_ZIG} cc -target ${CMAKE_SYSTEM_PROCESSOR}-${mi_system})
# It refuses options of the linker that it does not know. Without them, calls of our exported functions take the long way.
set(MI_IS_LINKED_BY_ZIG ON)
# Its archiver is a word, too.
set(CMAKE_AR ${MI_ZIG})
set(CMAKE_RANLIB ${MI_ZIG})
set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> ar qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "<CMAKE_AR> ar qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib -D <TARGET>")
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../build/cross/${MI_CROSS})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
