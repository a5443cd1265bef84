# Link for macOS from another system, with zig, which brings the headers of macOS and the names of what is in its libraries:
# MI_CROSS is "macos-arm64" or "macos-x86_64". Nothing runs. zig is the one that `scripts/setup.sh zig` fetches, or another on
# the path. On a Mac no toolchain file is needed.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MI_CROSS)
set(CMAKE_SYSTEM_NAME Darwin)
if(MI_CROSS STREQUAL "macos-x86_64")
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
  set(mi_zig_target x86_64-macos)
else()
  set(CMAKE_SYSTEM_PROCESSOR arm64)
  set(mi_zig_target aarch64-macos)
endif()
set(CMAKE_SYSTEM_VERSION 22) # macOS 13
file(GLOB mi_zig_folders ${CMAKE_CURRENT_LIST_DIR}/../build/zig/lib/python*/site-packages/ziglang)
find_program(MI_ZIG zig HINTS ${mi_zig_folders} REQUIRED)
set(CMAKE_C_COMPILER ${MI_ZIG} cc -target ${mi_zig_target})
# Its archiver is another word of the same program. To install, CMake calls ranlib once more, which is not needed.
set(CMAKE_AR ${MI_ZIG})
find_program(MI_TRUE true REQUIRED)
set(CMAKE_RANLIB ${MI_TRUE})
set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> ar --format=darwin qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "<CMAKE_AR> ar --format=darwin qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_AR> ranlib -D <TARGET>")
# CMake asks for it; nothing that we install needs it.
set(CMAKE_INSTALL_NAME_TOOL ${MI_TRUE})
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../build/cross/${MI_CROSS})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
