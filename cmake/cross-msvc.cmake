# Compile for Windows on x86-64 as Visual Studio does with clang-cl, on Linux: with the headers and import libraries of Wine,
# and with test/windows/sdk in place of what is in Microsoft's libraries. The folder that `WHICH=windows-msvc scripts/setup.sh cross`
# fills has the programs under the names that CMake looks for. MI_WINDOWS_CRT is the C run-time: "ucrt", which Visual Studio
# has, or "msvcrt", that of the test programs of the preset `windows`, which have errno there.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MI_WINDOWS_CRT)
if(NOT MI_WINDOWS_CRT)
  set(MI_WINDOWS_CRT ucrt)
endif()
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
get_filename_component(mi_msvc ${CMAKE_CURRENT_LIST_DIR}/../build/cross/windows-msvc ABSOLUTE)
get_filename_component(mi_sdk ${CMAKE_CURRENT_LIST_DIR}/../test/windows/sdk ABSOLUTE)
if(NOT EXISTS ${mi_msvc}/lib/${MI_WINDOWS_CRT}/msvcrt.lib)
  message(FATAL_ERROR "${mi_msvc} has no libraries: WHICH=windows-msvc scripts/setup.sh cross makes them")
endif()
set(CMAKE_C_COMPILER ${mi_msvc}/bin/clang-cl)
set(CMAKE_CXX_COMPILER ${mi_msvc}/bin/clang-cl)
set(CMAKE_LINKER ${mi_msvc}/bin/lld-link)
set(CMAKE_AR ${mi_msvc}/bin/llvm-lib)
# No resources are compiled here.
set(CMAKE_RC_COMPILER ${mi_msvc}/bin/none)
set(CMAKE_RC_COMPILER_WORKS ON)
set(CMAKE_MT ${mi_msvc}/bin/none)
set(mi_flags "--target=x86_64-pc-windows-msvc -imsvc /usr/include/wine/wine/msvcrt -imsvc /usr/include/wine/wine/windows")
string(APPEND mi_flags " -imsvc ${mi_sdk}/include -FI${mi_sdk}/missing.h")
if(MI_WINDOWS_CRT STREQUAL "msvcrt")
  string(APPEND mi_flags " -D_MSVCR_VER=0")
else()
  string(APPEND mi_flags " -D_UCRT")
endif()
set(CMAKE_C_FLAGS_INIT "${mi_flags}")
set(CMAKE_CXX_FLAGS_INIT "${mi_flags}")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
      "/manifest:no /libpath:${mi_msvc}/lib/${MI_WINDOWS_CRT} /libpath:${mi_msvc}/lib /nodefaultlib:libcmt /defaultlib:msvcrt")
endforeach()
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " /entry:mainCRTStartup") # Wine's library has a wmain, too
set(CMAKE_MSVC_RUNTIME_LIBRARY MultiThreadedDLL)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../test/windows/wine.sh)
