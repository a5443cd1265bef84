"""Recipe for conan 2: `conan create packaging/conan`, in the tree or the unpacked source archive."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class LibmimallocRecipe(ConanFile):
    name = "libmimalloc"
    license = "MIT"
    description = "Memory allocator with the interface of mimalloc.h 3.4"
    topics = ("allocator", "malloc", "mimalloc")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "override": [True, False], "secure": [True, False]}
    default_options = {"shared": True, "override": True, "secure": False}

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._tree, "include", "mimalloc.h"))
        number = int(re.search(r"MI_MALLOC_VERSION (\d+)", header)[1])
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self._tree, self.export_sources_folder)

    def configure(self):
        for setting in ("libcxx", "cppstd"):  # it is C
            self.settings.rm_safe(f"compiler.{setting}")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "MI_INSTALL_TOPLEVEL": True,
            "MI_BUILD_COMPAT": False,
            "MI_BUILD_TRACE": False,
            "MI_BUILD_IDLE": False,
            "MI_INSTALL_INSPECT": False,
            "MI_OVERRIDE": bool(self.options.override),
            "MI_SECURE": "ON" if self.options.secure else "OFF",
            "MI_BUILD_SHARED": bool(self.options.shared),
            "MI_BUILD_STATIC": not self.options.shared,
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "mimalloc")
        self.cpp_info.set_property("cmake_target_name", "mimalloc" if self.options.shared else "mimalloc-static")
        self.cpp_info.set_property("pkg_config_name", "mimalloc")
        self.cpp_info.defines = ["MI_SHARED_LIB" if self.options.shared else "MI_STATIC_LIB"]
        # The name says what is special, as CMakeLists.txt has it.
        build_type = str(self.settings.build_type).lower()
        name = "mimalloc" + ("-secure" if self.options.secure else "") + ("-debug" if build_type == "debug" else "")
        self.cpp_info.libs = [name]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
