"""g++ -O1 on a file of templates and standard containers.

The driver starts cc1plus, which inherits the peer and does the work. Trees and instructions live in a collected heap
of pages that gcc takes in large pieces and that makes up most of its memory; malloc serves what is around it: work
lists, vectors and bitmaps of a pass that go away with it, hash tables that double, names; nine of ten blocks have at
most 256 bytes. One thread. The output is assembly, so that no assembler is measured.
"""
from suite import catalog
from suite.context import checksum

DEPTH = {"tiny": 0, "quick": 1, "full": 3}
SOURCE = r"""
#if SIZE > 0
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
#endif
#include <string>
template <int N> struct Sum { static constexpr long value = Sum<N - 1>::value + N; };
template <> struct Sum<0> { static constexpr long value = 0; };
#if SIZE > 0
template <int N> struct Tag {
  std::map<std::string, std::variant<int, std::string, std::vector<Tag<N - 1>>>> m;
  std::unordered_map<int, std::function<int(Tag<N - 1>&)>> f;
};
template <> struct Tag<0> { int v; };
template <int N> std::size_t walk() {
  Tag<N> t; t.m["a"] = N; t.m["b"] = std::string(N, 'b'); t.f[N] = [](Tag<N - 1>&) { return N; };
  std::set<std::pair<int, std::string>> s{{N, "x"}}; std::vector<std::tuple<int, long, std::string>> v(N);
  std::sort(v.begin(), v.end());
  return t.m.size() + s.size() + v.size() + walk<N - 1>();
}
template <> std::size_t walk<0>() { return 0; }
std::size_t all() { return walk<SIZE>() + Sum<80 * SIZE>::value; }
#else
std::string all() { return std::string(Sum<200>::value, 'x'); }
#endif
"""


def prepare(folder, scale):
    (folder / "heavy.cpp").write_text(SOURCE)


def run(context):
    context.finish(["g++", "-std=c++17", "-O1", f"-DSIZE={DEPTH[context.scale]}", "-S", "heavy.cpp",
                    "-o", context.scratch / "heavy.s"], cwd=context.folder)
    return checksum(context.scratch / "heavy.s")


WORKLOAD = catalog.Program(name="gcc", group="programs", needs=[("g++", "g++")], prepare=prepare, run=run,
                           sentence="g++ -O1 on a file of templates and standard containers")
