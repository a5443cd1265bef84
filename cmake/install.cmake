# Where things go: the shared library where the loader looks, everything else in versioned folders so
# that two minor versions can be installed side by side.
include(CMakePackageConfigHelpers)

set(mi_version_dir /mimalloc-${MI_VERSION})
set(mi_private_dir ${CMAKE_INSTALL_LIBDIR}${mi_version_dir})
if(MI_INSTALL_TOPLEVEL)
  set(mi_version_dir "")
  set(mi_private_dir ${CMAKE_INSTALL_LIBDIR})
endif()
set(mi_include_dir ${CMAKE_INSTALL_INCLUDEDIR}${mi_version_dir})
set(mi_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mimalloc-${MI_VERSION})
if(MI_INSTALL_TOPLEVEL)
  set(mi_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mimalloc)
endif()

set(mi_installed "")
if(MI_BUILD_SHARED)
  list(APPEND mi_installed mimalloc)
  install(TARGETS mimalloc EXPORT mimalloc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} # of Windows
          INCLUDES DESTINATION ${mi_include_dir})
endif()
# Without the links that a program is linked by: there are no headers, either.
if(MI_BUILD_COMPAT)
  install(TARGETS ${MI_COMPAT_TARGETS} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${MI_COMPAT_FOLDER} NAMELINK_SKIP)
endif()
if(MI_BUILD_TRACE)
  install(TARGETS mimalloc-trace mimalloc-player RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${MI_TRACE_FOLDER})
  install(PROGRAMS ${MI_REPLAY} DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${MI_TRACE_SOURCE}/mimalloc-replay.1 ${MI_TRACE_SOURCE}/mimalloc-player.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(MI_BUILD_IDLE)
  install(TARGETS mimalloc-idle LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${MI_IDLE_FOLDER})
endif()
if(MI_BUILD_STATIC)
  install(TARGETS mimalloc-static EXPORT mimalloc ARCHIVE DESTINATION ${mi_private_dir}
          INCLUDES DESTINATION ${mi_include_dir})
  list(APPEND mi_installed mimalloc-static)
endif()
if(MI_BUILD_OBJECT)
  install(FILES ${MI_OBJECT_FILE} DESTINATION ${mi_private_dir})
endif()

install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/ DESTINATION ${mi_include_dir}
        FILES_MATCHING PATTERN "*.h")

# The tool finds its modules relative to itself, so that an installed tree can be moved.
if(MI_INSTALL_INSPECT)
  set(mi_inspect_dir ${CMAKE_INSTALL_DATADIR}/mimalloc-inspect)
  # Distributions give whole paths for some of these folders.
  file(RELATIVE_PATH MI_INSPECT_MODULES ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/mimalloc-inspect)
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/tools/mimalloc-inspect ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-inspect @ONLY)
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-inspect DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/tools/mimalloc_inspect DESTINATION ${mi_inspect_dir}
          FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/src/observe/inspect.def DESTINATION ${mi_inspect_dir}/mimalloc_inspect)
  install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/tools/mimalloc-inspect.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

if(mi_installed)
  install(EXPORT mimalloc FILE mimalloc.cmake DESTINATION ${mi_config_dir})
endif()
set(MI_LIBRARY_DIR ${CMAKE_INSTALL_LIBDIR})
set(MI_INCLUDE_DIR ${mi_include_dir})
set(MI_PRIVATE_DIR ${mi_private_dir})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/mimalloc-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-config.cmake
  INSTALL_DESTINATION ${mi_config_dir}
  PATH_VARS MI_LIBRARY_DIR MI_INCLUDE_DIR MI_PRIVATE_DIR)
# Programs of all older interfaces are served, also those that ask for 1.x or 2.x.
configure_file(${CMAKE_CURRENT_LIST_DIR}/mimalloc-config-version.cmake.in
               ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-config-version.cmake @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/mimalloc-config-version.cmake
        DESTINATION ${mi_config_dir})

# mi_pc_path(OUT BASE NAME PATH): a path of an installed file, relative to BASE, which ${NAME} stands for there, if BASE is
# below the prefix and the path is: an installed tree can be moved. All others are whole paths.
function(mi_pc_path out base name path)
  get_filename_component(path ${path} ABSOLUTE BASE_DIR ${CMAKE_INSTALL_PREFIX})
  get_filename_component(base ${base} ABSOLUTE BASE_DIR ${CMAKE_INSTALL_PREFIX})
  foreach(place ${path} ${base})
    file(RELATIVE_PATH below ${CMAKE_INSTALL_PREFIX} ${place})
    if(below MATCHES "^\\.\\.(/|$)")
      set(${out} ${path} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  file(RELATIVE_PATH path ${base} ${path})
  string(REGEX REPLACE "/$" "" path "\${${name}}/${path}")
  set(${out} ${path} PARENT_SCOPE)
endfunction()

mi_pc_path(MI_PC_PREFIX ${CMAKE_INSTALL_LIBDIR}/pkgconfig pcfiledir .)
mi_pc_path(MI_PC_LIBRARY_DIR . prefix ${CMAKE_INSTALL_LIBDIR})
mi_pc_path(MI_PC_INCLUDE_DIR . prefix ${mi_include_dir})
mi_pc_path(MI_PC_PRIVATE_DIR . prefix ${mi_private_dir})
configure_file(${CMAKE_CURRENT_LIST_DIR}/mimalloc.pc.in ${CMAKE_CURRENT_BINARY_DIR}/mimalloc.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mimalloc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
