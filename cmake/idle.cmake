# libmimalloc-idle.so (src/idle/): a library that is preloaded beside the allocator, which it does not contain.

# The unwinder of Debian's musl-gcc needs glibc.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-shared -fPIC -w")
set(CMAKE_REQUIRED_LINK_OPTIONS -static-libgcc ${MI_LINK_COMPLETE})
check_c_source_compiles("#include <unwind.h>
  _Unwind_Reason_Code mi_see(struct _Unwind_Context* c, void* p) { (void)c; (void)p; return _URC_NO_REASON; }
  void mi_look(void) { _Unwind_Backtrace(&mi_see, 0); }" MI_HAS_UNWINDER)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(NOT MI_HAS_UNWINDER)
  message(STATUS "libmimalloc-idle: is not built, because this compiler has no unwinder to link in")
  set(MI_BUILD_IDLE OFF)
  return()
endif()

add_library(mimalloc-idle SHARED ${CMAKE_CURRENT_SOURCE_DIR}/src/idle/waits.c)
mi_compile_flags(mimalloc-idle)
target_compile_definitions(mimalloc-idle PRIVATE _GNU_SOURCE)
target_link_libraries(mimalloc-idle PRIVATE ${CMAKE_DL_LIBS})
# The unwinder is linked in, so that no program gets a library that it does not have.
target_link_options(mimalloc-idle PRIVATE -static-libgcc ${MI_LINK_COMPLETE})
# In a folder of its own, as it is nothing to link with.
set(MI_IDLE_FOLDER mimalloc-idle)
set_target_properties(mimalloc-idle PROPERTIES NO_SONAME ON LINKER_LANGUAGE C
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${MI_IDLE_FOLDER})
