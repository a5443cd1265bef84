// SPDX-License-Identifier: MIT
// memory_resource.cpp - containers of std::pmr on the memory resources over heaps, for C++17 and
// later. If this fails, memory of a request stays behind, or goes while it is used.
#include <mimalloc-memory-resource.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "heaps.h"

static void containers(mi_heap_memory_resource& resource) {
  std::pmr::vector<std::pmr::string> words(&resource);
  for (int i = 0; i < 1000; i++) words.emplace_back(100, 'x');
  mi_heap_t* const heap = resource.heap();
  CHECK(heap != nullptr && heap != mi_heap_main());
  CHECK(mi_heap_of(words.data()) == heap && mi_heap_of(words[500].data()) == heap);
  std::pmr::map<int, std::pmr::string> m(&resource);
  std::pmr::unordered_map<int, std::pmr::string> u(&resource);
  for (int i = 0; i < 1000; i++) m[i] = u[i] = words[i];
  CHECK(mi_heap_of(m[500].data()) == heap && mi_heap_of(&u[500]) == heap);
}

static void of_the_program() {
  const int before = heap_count();
  mi_heap_t* const heap = mi_heap_new();
  {
    mi_heap_memory_resource resource(heap), same(heap);
    CHECK(resource.heap() == heap);
    containers(resource);
    CHECK(block_count(heap) == 0); // all went back one by one
    resource.collect(true);
    std::pmr::vector<int> v(100, 1, &resource);
    const void* const data = v.data();
    std::pmr::vector<int> w(&same);
    mi_heap_destroy_memory_resource other;
    std::pmr::vector<int> x(&other);
    CHECK(resource.is_equal(resource) && !resource.is_equal(other) && !other.is_equal(resource));
    CHECK(!resource.is_equal(*std::pmr::new_delete_resource()));
#if defined(__cpp_rtti)
    CHECK(resource.is_equal(same));
    CHECK(resource.is_equal(mi_heap_memory_resource(heap)));
    w = std::move(v);
    CHECK(w.data() == data); // taken over: the heap is the same
    x = std::move(w);
    CHECK(x.data() != data && mi_heap_of(x.data()) == other.heap());
    CHECK(other.is_equal(mi_heap_memory_resource(other.heap())));
#else
    CHECK(!resource.is_equal(same)); // cannot know
    w = std::move(v);
    CHECK(w.data() != data && mi_heap_of(w.data()) == heap);
#endif
  }
  CHECK(heap_count() == before + 1); // the heap stays
  mi_heap_destroy(heap);
  CHECK(mi_heap_memory_resource(nullptr).heap() == mi_heap_main());
}

static void of_its_own() {
  const int before = heap_count();
  {
    mi_heap_destroy_memory_resource resource, unused;
    CHECK(heap_count() == before && !resource.is_equal(unused));
    containers(resource);
    CHECK(heap_count() == before + 1);
    // Not deallocated, and that is fine.
    void* p = resource.allocate(1000);
    mi_heap_t* const heap = mi_heap_of(p);
    CHECK(heap == resource.heap() && heap_count() == before + 1);
    for (int i = 0; i < 3; i++) {
      resource.release();
      CHECK(heap_count() == before);
      CHECK(mi_heap_of(p) == nullptr);
      resource.release(); // nothing to do
      resource.collect(true);
      CHECK(heap_count() == before);
      p = resource.allocate(1000);
      CHECK(mi_heap_of(p) == resource.heap() && heap_count() == before + 1);
    }
    resource.deallocate(resource.allocate(0, 1), 0, 1);
  }
  CHECK(heap_count() == before);
}

static void alignments() {
  mi_heap_destroy_memory_resource resource;
  std::vector<void*> kept;
  for (std::size_t alignment = 1; alignment <= 262144; alignment *= 2) {
    for (std::size_t size : {1, 8, 100, 5000}) {
      void* const p = resource.allocate(size, alignment);
      CHECK(reinterpret_cast<std::size_t>(p) % alignment == 0 && mi_usable_size(p) >= size);
      kept.push_back(resource.allocate(size, alignment));
      resource.deallocate(p, size, alignment);
    }
  }
  CHECK(block_count(resource.heap()) == static_cast<int>(kept.size()));
}

// Threads that are the first to use a resource, all at once, find the same heap.
static void threads() {
  for (int round = 0; round < 50; round++) {
    const int before = heap_count();
    mi_heap_destroy_memory_resource resource;
    std::atomic<int> waiting(4);
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++) {
      all.emplace_back([&] {
        waiting--;
        while (waiting > 0) std::this_thread::yield();
        void* const p = resource.allocate(100);
        CHECK(mi_heap_of(p) == resource.heap());
        resource.deallocate(p, 100);
      });
    }
    for (std::thread& thread : all) thread.join();
    CHECK(heap_count() == before + 1);
  }
}

#if defined(__cpp_exceptions)
static void no_memory() {
  volatile std::size_t most = static_cast<std::size_t>(-1); // not for the compiler to judge
  mi_heap_destroy_memory_resource resource;
  is_refused = true;
  CHECK(runs_out_of_memory([&] { mi_free(resource.allocate(1)); }));
  is_refused = false;
  CHECK(is_helped([&] { resource.deallocate(resource.allocate(1), 1); }));
  CHECK(runs_out_of_memory([&] { mi_free(resource.allocate(most / 2 - 4096)); }));
  CHECK(runs_out_of_memory([&] { mi_free(resource.allocate(most - 4096, 4096)); }));
  // An alignment that is none: a handler cannot help, and must not be called for ever.
  handler_calls = 0;
  std::set_new_handler([] { handler_calls++; });
  bool is_thrown = false;
  volatile std::size_t alignment = 48;
  try {
    mi_free(_mi_heap_cxx_new::block(resource.heap(), 100, alignment));
  } catch (const std::bad_alloc&) {
    is_thrown = true;
  }
  std::set_new_handler(nullptr);
  CHECK(is_thrown && handler_calls == 0);
}
#else
// Without exceptions the process ends with SIGABRT.
static void no_memory() {
  is_refused = true;
  mi_heap_destroy_memory_resource resource;
  mi_free(resource.allocate(1));
}
#endif

int main() {
  of_the_program();
  of_its_own();
  alignments();
  threads();
  no_memory();
  return 0;
}
