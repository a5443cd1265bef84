// SPDX-License-Identifier: MIT
// stl.cpp - containers on mi_stl_allocator, for every language version. Linked with a library that
// replaces nothing: what is ours came through the allocator.
#include <mimalloc.h>

#include <deque>
#include <list>
#include <map>
#include <stdio.h>
#include <string>
#include <vector>
#if __cplusplus >= 201103L
#include <memory>
#include <unordered_map>
#endif

#include "../../lib/check.h"

static bool is_ours(const void* p) { return mi_usable_size(p) > 0; }

typedef mi_stl_allocator<int> ints;
typedef std::vector<int, ints> vector;

static void containers() {
  vector v;
  for (int i = 0; i < 1000; i++) v.push_back(i);
  CHECK(is_ours(&v[0]) && v.size() == 1000 && v[999] == 999);
  vector copy(v), other(5);
  copy.swap(other);
  CHECK(other == v && copy.size() == 5);
  std::list<int, ints> l(v.begin(), v.end());
  l.sort();
  CHECK(l.size() == 1000 && l.get_allocator() == v.get_allocator());
  std::deque<int, ints> d(v.begin(), v.end());
  d.push_front(1);
  CHECK(d.size() == 1001);
  std::map<int, vector, std::less<int>, mi_stl_allocator<std::pair<const int, vector> > > m;
  for (int i = 0; i < 100; i++) m[i % 10].push_back(i);
  CHECK(m.size() == 10 && m[3].size() == 10 && is_ours(&m[3][0]));
  std::vector<bool, mi_stl_allocator<bool> > bits(1000, true);
  CHECK(bits[999]);
  std::basic_string<char, std::char_traits<char>, mi_stl_allocator<char> > s(1000, 'x');
  s += "more";
  CHECK(s.size() == 1004 && is_ours(s.data()));
}

static void members() {
  ints a;
  ints b(a);
  mi_stl_allocator<char> c(a);
  ints::rebind<char>::other d(b);
  CHECK(a == b && !(a != b) && a == c && c == d);
  ints::size_type most = a.max_size();
  CHECK(most == static_cast<std::size_t>(-1) / 2 / sizeof(int));
  ints::pointer p = a.allocate(10);
  ints::pointer q = b.allocate(10, p);
  CHECK(is_ours(p) && is_ours(q) && p != q);
  a.construct(p, 42);
  ints::const_reference r = *p;
  ints::const_pointer address = a.address(r);
  CHECK(*p == 42 && a.address(*p) == p && address == p);
  a.destroy(p);
  ints::difference_type far = q - q;
  b.deallocate(p, 10);
  a.deallocate(q, static_cast<ints::size_type>(10 + far));
  ints::value_type value = 1;
  ints::reference same = value;
  CHECK(&same == &value);
}

// An allocator may be named for a type that is not complete yet.
struct tree {
  std::vector<tree, mi_stl_allocator<tree> > children;
};

template <int N> struct wide { char data[N + 1]; } __attribute__((aligned(N)));

template <int N> static void alignment() {
  std::list<wide<N>, mi_stl_allocator<wide<N> > > l(5);
  std::vector<wide<N>, mi_stl_allocator<wide<N> > > v(3);
  CHECK(reinterpret_cast<std::size_t>(&v[0]) % N == 0);
  for (typename std::list<wide<N>, mi_stl_allocator<wide<N> > >::iterator i = l.begin();
       i != l.end(); ++i) {
    CHECK(reinterpret_cast<std::size_t>(&*i) % N == 0);
  }
}

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
static int handler_calls = 0;

static void handler() {
  if (++handler_calls == 2) std::set_new_handler(NULL);
}

template <class T> static bool throws(std::size_t count) {
  try {
    mi_stl_allocator<T> a;
    a.deallocate(a.allocate(count), count);
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

// A count whose bytes overflow is an error of the program: no handler can help.
static void too_much() {
  const std::size_t most = static_cast<std::size_t>(-1);
  std::set_new_handler(&handler);
  CHECK(throws<int>(most / 4 + 2)); // 4 bytes after the overflow
  CHECK(throws<int>(most));
  CHECK(throws<wide<64> >(most / 128 + 2));
  CHECK(handler_calls == 0);
  CHECK(throws<int>(most / 2 / sizeof(int)));
  CHECK(handler_calls == 2);
#if __cplusplus >= 201103L
  try {
    mi_free(ints().allocate(most));
  } catch (const std::bad_array_new_length&) {
    handler_calls = 0;
  }
  CHECK(handler_calls == 0);
#endif
}
#else
// Without exceptions the process ends with SIGABRT.
static void too_much() { mi_free(ints().allocate(static_cast<std::size_t>(-1))); }
#endif

#if __cplusplus >= 201103L
static void modern() {
  typedef std::allocator_traits<ints> traits;
  static_assert(traits::propagate_on_container_copy_assignment::value, "");
  static_assert(traits::propagate_on_container_move_assignment::value, "");
  static_assert(traits::propagate_on_container_swap::value, "");
  static_assert(ints::is_always_equal::value, "");
  static_assert(std::is_same<traits::rebind_alloc<char>, mi_stl_allocator<char> >::value, "");
  static_assert(std::is_nothrow_default_constructible<ints>::value, "");
  static_assert(std::is_nothrow_copy_constructible<ints>::value, "");
  std::vector<std::pair<int, std::unique_ptr<int> >,
              mi_stl_allocator<std::pair<int, std::unique_ptr<int> > > >
      v;
  v.emplace_back(1, std::unique_ptr<int>(new int(2)));
  CHECK(is_ours(v.data()) && *v[0].second == 2);
  const void* const before = v.data();
  decltype(v) other(10);
  other = std::move(v); // takes the block over: all allocators are equal
  CHECK(other.data() == before);
  std::unordered_map<int, int, std::hash<int>, std::equal_to<int>,
                     mi_stl_allocator<std::pair<const int, int> > >
      m;
  for (int i = 0; i < 1000; i++) m[i] = i;
  CHECK(m.at(500) == 500);
  CHECK(*std::allocate_shared<int>(ints(), 7) == 7);
}
#else
static void modern() {}
#endif

int main() {
  int* const p = new int;
  CHECK(!is_ours(p));
  delete p;
  containers();
  members();
  tree root;
  root.children.resize(3);
  CHECK(is_ours(&root.children[0]));
  alignment<8>();
  alignment<32>();
  alignment<64>();
  alignment<4096>();
  alignment<262144>(); // smaller ones come true by themselves where blocks lie side by side
  modern();
  too_much();
  return 0;
}
