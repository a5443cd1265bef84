# Port for vcpkg; scripts/release.py fills in where the archive is, and its hash.
vcpkg_download_distfile(
  ARCHIVE
  URLS "@URL@/libmimalloc-${VERSION}.tar.gz"
  FILENAME "libmimalloc-${VERSION}.tar.gz"
  SHA512 @SHA512@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" MI_BUILD_SHARED)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "static" MI_BUILD_STATIC)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DMI_INSTALL_TOPLEVEL=ON -DMI_SECURE=OFF -DMI_BUILD_OBJECT=OFF -DMI_BUILD_COMPAT=OFF -DMI_INSTALL_INSPECT=OFF -DMI_BUILD_TRACE=OFF -DMI_BUILD_IDLE=OFF
          -DMI_BUILD_SHARED=${MI_BUILD_SHARED} -DMI_BUILD_STATIC=${MI_BUILD_STATIC})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME mimalloc CONFIG_PATH lib/cmake/mimalloc)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
