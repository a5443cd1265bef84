// SPDX-License-Identifier: MIT
// mimalloc-memory-resource.h - heaps as memory resources of C++17, for the containers of std::pmr.
//
//   mi_heap_memory_resource          over a heap that the program made and ends
//   mi_heap_destroy_memory_resource  over a heap of its own, whose memory goes all at once with it
#pragma once
#ifndef MIMALLOC_MEMORY_RESOURCE_H
#define MIMALLOC_MEMORY_RESOURCE_H

#if defined(__cplusplus)
#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "mimalloc-memory-resource.h is for C++17 and later"
#endif
#include <atomic>
#include <memory_resource>

#include "mimalloc.h"

/// A memory resource over a heap that the program made and ends. Any thread may allocate and
/// deallocate at any time; what is deallocated is used again at once, as by `mi_free()`. Any
/// alignment is honoured. Without memory the new-handler is called; without one, std::bad_alloc is
/// thrown (without exceptions the process is aborted). Resources over the same heap are equal
/// (without run-time types: only a resource and itself).
/// @ingroup cxxnew
class mi_heap_memory_resource : public std::pmr::memory_resource {
public:
  /// @param heap  must outlive the resource; NULL is the main heap.
  explicit mi_heap_memory_resource(mi_heap_t* heap) noexcept
      : resource_heap(heap != nullptr ? heap : mi_heap_main()) {}

  /// @return the heap it allocates from.
  mi_heap_t* heap() {
    mi_heap_t* const known = resource_heap.load(std::memory_order_acquire);
    return known != nullptr ? known : make_heap();
  }

  /// As `mi_heap_collect()`.
  /// @param force  give everything back at once.
  void collect(bool force) noexcept {
    mi_heap_t* const known = resource_heap.load(std::memory_order_acquire);
    if (known != nullptr) mi_heap_collect(known, force);
  }

  /// @cond for the class below
protected:
  mi_heap_memory_resource() noexcept : resource_heap(nullptr) {}

  // Forget the heap; the next use makes a fresh one.
  mi_heap_t* take_heap() noexcept { return resource_heap.exchange(nullptr); }
  /// @endcond

private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    return _mi_heap_cxx_new::block(heap(), size, alignment);
  }
  void do_deallocate(void* p, std::size_t size, std::size_t alignment) override {
    mi_free_size_aligned(p, size, alignment);
  }
  // Equal are resources over the same heap (without run-time types: only a resource and itself).
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    if (this == &other) return true;
#if defined(__cpp_rtti) || defined(__GXX_RTTI) || defined(_CPPRTTI)
    const mi_heap_memory_resource* const o = dynamic_cast<const mi_heap_memory_resource*>(&other);
    const mi_heap_t* const known = resource_heap.load(std::memory_order_acquire);
    return o != nullptr && known != nullptr && known == o->resource_heap;
#else
    return false;
#endif
  }

  mi_heap_t* make_heap() {
    mi_heap_t* const fresh = _mi_heap_cxx_new::heap();
    mi_heap_t* known = nullptr;
    if (resource_heap.compare_exchange_strong(known, fresh)) return fresh;
    mi_heap_delete(fresh); // another thread was faster
    return known;
  }

  std::atomic<mi_heap_t*> resource_heap;
};

/// A memory resource over a heap of its own, which the first allocation makes. All memory goes at
/// once with the resource, whether it was deallocated or not.
/// @code
/// mi_heap_destroy_memory_resource request;
/// std::pmr::vector<std::pmr::string> words(&request);
/// @endcode
/// @ingroup cxxnew
class mi_heap_destroy_memory_resource : public mi_heap_memory_resource {
public:
  /// Takes no memory yet.
  mi_heap_destroy_memory_resource() noexcept {}
  ~mi_heap_destroy_memory_resource() override { release(); }

  /// End all memory at once, whether it was deallocated or not, and start anew. No other thread may
  /// use the resource at that time; nothing from before may be used or deallocated any more.
  void release() noexcept { mi_heap_destroy(take_heap()); }
};

#endif // __cplusplus
#endif
