# Compile for WebAssembly: MI_CROSS is "wasi", with clang and wasi-libc, or "emscripten", "emscripten-threads". Programs run
# under node. There are no shared libraries.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MI_CROSS)
if(MI_CROSS STREQUAL "wasi")
  set(CMAKE_SYSTEM_NAME Generic)
  set(CMAKE_SYSTEM_PROCESSOR wasm32)
  find_program(MI_WASI_CLANG NAMES clang clang-14 REQUIRED)
  set(CMAKE_C_COMPILER ${MI_WASI_CLANG})
  set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
  set(CMAKE_EXECUTABLE_SUFFIX .wasm)
else()
  # What Emscripten itself gives a project; Debian's has it here.
  find_path(MI_EMSCRIPTEN cmake/Modules/Platform/Emscripten.cmake PATHS /usr/share/emscripten $ENV{EMSDK}/upstream/emscripten
            NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  include(${MI_EMSCRIPTEN}/cmake/Modules/Platform/Emscripten.cmake)
  if(MI_CROSS STREQUAL "emscripten-threads")
    set(CMAKE_C_FLAGS_INIT -pthread)
  endif()
endif()
