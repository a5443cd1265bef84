# Compile for Windows on x86-64, with the headers and libraries of mingw-w64: MI_CROSS is "windows", with clang, whose
# thread-local variables are those of Windows, or "windows-gcc". Programs run under Wine. cmocka comes from the folder that
# `scripts/setup.sh cross` fills.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MI_CROSS)
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(mi_triple x86_64-w64-mingw32)
if(MI_CROSS STREQUAL "windows-gcc")
  # Debian has two: with threads of POSIX, which the test programs use, and with those of Windows.
  find_program(MI_WINDOWS_GCC NAMES ${mi_triple}-gcc-posix ${mi_triple}-gcc REQUIRED)
  set(CMAKE_C_COMPILER ${MI_WINDOWS_GCC})
  set(CMAKE_SHARED_LINKER_FLAGS_INIT -static) # the compiler's own libraries
else()
  # Clang up to 14 looks for headers of the system that it runs on.
  find_program(MI_WINDOWS_CLANG NAMES clang-19 clang-20 clang-21 clang REQUIRED)
  set(CMAKE_C_COMPILER ${MI_WINDOWS_CLANG})
  set(CMAKE_C_COMPILER_TARGET ${mi_triple})
  find_program(CMAKE_AR ${mi_triple}-ar REQUIRED)
  find_program(CMAKE_RANLIB ${mi_triple}-ranlib REQUIRED)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../test/windows/wine.sh)
set(CMAKE_FIND_ROOT_PATH /usr/${mi_triple} ${CMAKE_CURRENT_LIST_DIR}/../build/cross/${MI_CROSS}/usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
