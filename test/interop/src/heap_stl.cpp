// SPDX-License-Identifier: MIT
// heap_stl.cpp - containers on the allocators over heaps, for C++11 and later. If this fails,
// containers lose their heap, leak it, or mix two of them.
#include <mimalloc.h>

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "heaps.h"

static_assert(MI_HAS_HEAP_STL_ALLOCATOR == 1, "promised by mimalloc.h");

template <class T> using freeing = mi_heap_stl_allocator<T>;
template <class T> using destroying = mi_heap_destroy_stl_allocator<T>;

// All of a container and of what it contains is in one heap: where its first element lies.
template <template <class> class A> static void containers(const A<int>& a) {
  std::vector<int, A<int>> v(a);
  for (int i = 0; i < 1000; i++) v.push_back(i);
  mi_heap_t* const heap = mi_heap_of(v.data());
  CHECK(heap != nullptr && heap != mi_heap_main());
  CHECK(v.size() == 1000 && v[999] == 999);
  std::list<int, A<int>> l(v.begin(), v.end(), a);
  l.sort();
  CHECK(l.size() == 1000 && mi_heap_of(&l.back()) == heap);
  std::deque<int, A<int>> d(v.begin(), v.end(), a);
  d.push_front(1);
  CHECK(d.size() == 1001 && mi_heap_of(&d.back()) == heap);
  std::map<int, int, std::less<int>, A<std::pair<const int, int>>> m(std::less<int>(), a);
  std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, A<std::pair<const int, int>>> u(
      100, std::hash<int>(), std::equal_to<int>(), a);
  for (int i = 0; i < 1000; i++) m[i] = u[i] = i;
  CHECK(m.size() == 1000 && mi_heap_of(&m[500]) == heap);
  CHECK(u.size() == 1000 && mi_heap_of(&u[500]) == heap);
  std::basic_string<char, std::char_traits<char>, A<char>> s(1000, 'x', a);
  s += "more";
  CHECK(s.size() == 1004 && mi_heap_of(s.data()) == heap);
  std::vector<bool, A<bool>> bits(1000, true, a);
  CHECK(bits[999]);
  const std::shared_ptr<int> shared = std::allocate_shared<int>(a, 7);
  CHECK(*shared == 7 && mi_heap_of(shared.get()) == heap);
}

// A fresh heap lives as long as the last copy of its allocator, and one of the program's longer.
template <template <class> class A> static void ownership() {
  const int before = heap_count();
  {
    A<int> a;
    CHECK(heap_count() == before + 1);
    containers<A>(a);
    A<int> b(a);
    A<char> c(b);
    A<long> d;
    CHECK(heap_count() == before + 2);
    d = c;
    CHECK(heap_count() == before + 1);
    CHECK(a == b && a == c && c == d && !(a != c) && a.is_equal(d));
    CHECK(a != A<int>() && !(a == A<int>()));
    a = A<int>();
    CHECK(heap_count() == before + 2 && a != b);
    a.collect(true);
  }
  CHECK(heap_count() == before);

  std::shared_ptr<int> last = std::allocate_shared<int>(A<int>(), 7);
  CHECK(heap_count() == before + 1); // kept by a copy of the allocator that lies inside it
  last.reset();
  CHECK(heap_count() == before);

  mi_heap_t* const heap = mi_heap_new();
  {
    A<int> a(heap);
    A<char> b(heap);
    CHECK(a == b);
    containers<A>(a);
    int* const p = a.allocate(1);
    CHECK(mi_heap_of(p) == heap);
    a.deallocate(p, 1);
  }
  CHECK(heap_count() == before + 1);
  mi_heap_destroy(heap);
  CHECK(heap_count() == before);
  CHECK(A<int>(static_cast<mi_heap_t*>(nullptr)) == A<int>(mi_heap_main()));
}

// Containers are copied, moved and swapped with their heaps, and can be used after that.
template <template <class> class A> static void assignment() {
  typedef std::vector<int, A<int>> vector;
  const int before = heap_count();
  {
    vector v(100, 1), w(200, 2);
    mi_heap_t* const heap_v = mi_heap_of(v.data());
    mi_heap_t* const heap_w = mi_heap_of(w.data());
    CHECK(heap_v != heap_w && heap_count() == before + 2);
    const void* const data_v = v.data();
    std::swap(v, w);
    CHECK(w.data() == data_v && v.size() == 200 && mi_heap_of(v.data()) == heap_w);
    v.resize(1000);
    CHECK(mi_heap_of(v.data()) == heap_w);

    vector copied(w);
    CHECK(copied == w && mi_heap_of(copied.data()) == heap_v);
    vector moved(std::move(w));
    CHECK(moved.data() == data_v);
    w.assign(5, 3);
    CHECK(mi_heap_of(w.data()) == heap_v); // moved from, but not without a heap
    copied = v;
    CHECK(copied == v && mi_heap_of(copied.data()) == heap_w);
    v = std::move(moved);
    CHECK(v.data() == data_v && mi_heap_of(v.data()) == heap_v);
    moved.push_back(1);
    CHECK(mi_heap_of(moved.data()) == heap_v);
  }
  CHECK(heap_count() == before);

  typedef std::map<int, std::string, std::less<int>, A<std::pair<const int, std::string>>> map;
  {
    map m, n;
    m[1] = "one";
    n[2] = "two";
    n = std::move(m);
    CHECK(n.size() == 1 && n[1] == "one");
    m.clear();
    m[3] = "three";
    CHECK(mi_heap_of(&m[3]) == mi_heap_of(&n[1]));
    m = n;
    CHECK(m == n && heap_count() == before + 1);
  }
  CHECK(heap_count() == before);
}

// The last copy may be on another thread, and threads may share one heap.
template <template <class> class A> static void threads() {
  typedef std::vector<int, A<int>> vector;
  const int before = heap_count();
  {
    vector mine(1, 1);
    mi_heap_t* const heap = mi_heap_of(mine.data());
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++) {
      all.emplace_back(
          [heap](vector v) {
            for (int i = 0; i < 1000; i++) {
              v.push_back(i);
              vector copy(v.begin(), v.end(), v.get_allocator());
              if (i == 999) CHECK(mi_heap_of(copy.data()) == heap);
            }
          },
          mine);
    }
    for (std::thread& thread : all) thread.join();
    CHECK(heap_count() == before + 1);
    vector* const other = new vector(mine);
    mine = vector();
    std::thread([other] { delete other; }).join();
    CHECK(heap_count() == before + 1);
  }
  CHECK(heap_count() == before);
}

// What distinguishes the two: whether single blocks go back, and whether others outlive the heap.
static void kinds() {
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < 100; i++) {
    freeing<int> a(heap);
    a.deallocate(a.allocate(10), 10);
  }
  CHECK(block_count(heap) == 0);
  destroying<int> b(heap);
  for (int i = 0; i < 100; i++) {
    int* const p = b.allocate(10);
    *p = i;
    b.deallocate(p, 10);
    CHECK(*p == i);
  }
  CHECK(block_count(heap) == 100);
  mi_heap_destroy(heap);

  int* const kept = freeing<int>().allocate(10);
  CHECK(mi_heap_of(kept) == mi_heap_main());
  mi_free(kept);
  const void* const gone = destroying<int>().allocate(10);
  CHECK(mi_heap_of(gone) == nullptr);
}

template <int N> struct alignas(N) wide { char data[N + 1]; };

template <template <class> class A, int N> static void alignment() {
  A<wide<N>> a;
  std::list<wide<N>, A<wide<N>>> l(5, wide<N>(), a);
  std::vector<wide<N>, A<wide<N>>> v(3, wide<N>(), a);
  CHECK(reinterpret_cast<std::size_t>(&v[0]) % N == 0);
  for (const wide<N>& w : l) CHECK(reinterpret_cast<std::size_t>(&w) % N == 0);
  CHECK(mi_heap_of(&v[0]) == mi_heap_of(&l.front()) && mi_heap_of(&v[0]) != mi_heap_main());
}

// An allocator may be named for a type that is not complete yet.
template <template <class> class A> struct tree { std::vector<tree, A<tree>> children; };

template <template <class> class A> static void types() {
  typedef std::allocator_traits<A<int>> traits;
  static_assert(traits::propagate_on_container_copy_assignment::value, "");
  static_assert(traits::propagate_on_container_move_assignment::value, "");
  static_assert(traits::propagate_on_container_swap::value, "");
  static_assert(!A<int>::is_always_equal::value, "");
  static_assert(std::is_same<typename traits::template rebind_alloc<char>, A<char>>::value, "");
  static_assert(std::is_nothrow_copy_constructible<A<int>>::value, "");
  static_assert(std::is_nothrow_move_constructible<A<int>>::value, "");
  static_assert(std::is_nothrow_constructible<A<int>, const A<char>&>::value, "");
  static_assert(!std::is_constructible<A<int>, const std::allocator<int>&>::value, "");
  A<int> a;
  CHECK(traits::select_on_container_copy_construction(a) == a);
  CHECK(a.max_size() == static_cast<std::size_t>(-1) / 2 / sizeof(int));
  int* const p = a.allocate(10, nullptr);
  traits::construct(a, p, 42);
  CHECK(*p == 42);
  traits::destroy(a, p);
  a.deallocate(p, 10);
  tree<A> root;
  root.children.resize(3);
  CHECK(mi_heap_of(root.children.data()) != mi_heap_main());
}

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
template <template <class> class A> static void no_memory() {
  const int before = heap_count();
  is_refused = true;
  CHECK(runs_out_of_memory([] { A<int> a; }));
  is_refused = false;
  CHECK(is_helped([] { A<int> a; }));
  CHECK(runs_out_of_memory([] {
    A<char> a;
    mi_free(a.allocate(a.max_size()));
  }));
  CHECK(runs_out_of_memory([] {
    A<wide<64>> a;
    mi_free(a.allocate(a.max_size()));
  }));
  // A count whose bytes overflow is an error of the program: no handler can help.
  bool is_thrown = false;
  std::set_new_handler(&handler);
  handler_calls = 0;
  try {
    mi_free(A<wide<64>>().allocate(static_cast<std::size_t>(-1) / 128 + 2));
  } catch (const std::bad_array_new_length&) {
    is_thrown = true;
  }
  std::set_new_handler(nullptr);
  CHECK(is_thrown && handler_calls == 0);
  CHECK(heap_count() == before); // an exception leaves no heap behind
}
#else
// Without exceptions the process ends with SIGABRT.
template <template <class> class A> static void no_memory() {
  is_refused = true;
  A<int> a;
}
#endif

template <template <class> class A> static void all() {
  ownership<A>();
  assignment<A>();
  threads<A>();
  alignment<A, 8>();
  alignment<A, 32>();
  alignment<A, 4096>();
  alignment<A, 262144>(); // smaller ones come true by themselves where blocks lie side by side
  types<A>();
}

int main() {
  all<freeing>();
  all<destroying>();
  kinds();
  no_memory<freeing>();
  no_memory<destroying>();
  return 0;
}
