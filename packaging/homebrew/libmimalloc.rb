# Formula for Homebrew on Linux; scripts/release.py fills in where the archive is, and its hash.
class Libmimalloc < Formula
  desc "Memory allocator with the interface of mimalloc.h 3.4"
  url "@URL@/libmimalloc-3.4.3.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on :linux

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DMI_INSTALL_TOPLEVEL=ON", "-DMI_SECURE=OFF",
           *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    (testpath/"user.c").write <<~C
      #include <mimalloc.h>
      int main(void) { return mi_version() == MI_MALLOC_VERSION ? 0 : 1; }
    C
    system ENV.cc, "user.c", "-I#{include}", "-L#{lib}", "-lmimalloc", "-o", "user"
    system "./user"
  end
end
