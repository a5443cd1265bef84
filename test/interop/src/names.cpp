// Uses all forms of operator new and delete. Each pair that the program replaces puts a word in front of its blocks by
// which it knows them again: the forms that are specified to call others must end in those of the program.
//   PLAIN          new, delete                 ALIGNED          the same with an alignment
//   ARRAY          new[], delete[]             ALIGNED_ARRAY
//   ONLY_NEW, ONLY_DELETE: only one, and nothing in front: legal for those who know where memory comes from
#include "own.h"

#include <new>

constexpr size_t TOO_MUCH = 1 << 20;

// -- What is in front of a block, and the pair that is to be found there.

struct front {
  size_t pair;
  void* start;
};

[[maybe_unused]] static void* made(size_t pair, size_t size, size_t alignment) {
  if (size >= TOO_MUCH) throw std::bad_alloc();
  char* start = (char*)malloc(size + 2 * alignment + sizeof(front));
  uintptr_t p = ((uintptr_t)start + sizeof(front) + alignment - 1) / alignment * alignment;
  ((front*)p)[-1] = front{pair, start};
  return (void*)p;
}

[[maybe_unused]] static void unmade(size_t pair, void* p) {
  if (p == nullptr) return;
  if (((front*)p)[-1].pair != pair) FAIL("operator delete: not a block of this operator new");
  free(((front*)p)[-1].start);
}

enum { PAIR_PLAIN = 0x11111, PAIR_ARRAY = 0x22222, PAIR_ALIGNED = 0x33333, PAIR_ALIGNED_ARRAY = 0x44444 };

#pragma GCC diagnostic ignored "-Wsized-deallocation"
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#if defined(PLAIN)
void* operator new(size_t n) { return made(PAIR_PLAIN, n, 16); }
void operator delete(void* p) noexcept { unmade(PAIR_PLAIN, p); }
#endif
#if defined(ARRAY)
void* operator new[](size_t n) { return made(PAIR_ARRAY, n, 16); }
void operator delete[](void* p) noexcept { unmade(PAIR_ARRAY, p); }
#endif
#if defined(ALIGNED)
void* operator new(size_t n, std::align_val_t a) { return made(PAIR_ALIGNED, n, (size_t)a); }
void operator delete(void* p, std::align_val_t) noexcept { unmade(PAIR_ALIGNED, p); }
#endif
#if defined(ALIGNED_ARRAY)
void* operator new[](size_t n, std::align_val_t a) { return made(PAIR_ALIGNED_ARRAY, n, (size_t)a); }
void operator delete[](void* p, std::align_val_t) noexcept { unmade(PAIR_ALIGNED_ARRAY, p); }
#endif
#if defined(ONLY_NEW)
void* operator new(size_t n) { return malloc(n); }
#endif
#if defined(ONLY_DELETE)
void operator delete(void* p) noexcept { free(p); }
#endif

// Which pair a block must have in front; 0: of none.
static void* seen(size_t pair, void* p) {
  if (p == nullptr) FAIL("NULL");
  if (pair != 0 && ((front*)p)[-1].pair != pair) FAIL("operator new: the form of the program was not called");
#if defined(OWN_MALLOC)
  own_header(pair != 0 ? ((front*)p)[-1].start : p);
#endif
  memset(p, 1, 8);
  return p;
}

#if defined(PLAIN)
constexpr size_t OF_PLAIN = PAIR_PLAIN;
#else
constexpr size_t OF_PLAIN = 0;
#endif
#if defined(ARRAY)
constexpr size_t OF_ARRAY = PAIR_ARRAY;
#else
constexpr size_t OF_ARRAY = OF_PLAIN;
#endif
#if defined(ALIGNED)
constexpr size_t OF_ALIGNED = PAIR_ALIGNED;
#else
constexpr size_t OF_ALIGNED = 0;
#endif
#if defined(ALIGNED_ARRAY)
constexpr size_t OF_ALIGNED_ARRAY = PAIR_ALIGNED_ARRAY;
#else
constexpr size_t OF_ALIGNED_ARRAY = OF_ALIGNED;
#endif

static void plain(size_t n) {
  ::operator delete(seen(OF_PLAIN, ::operator new(n)));
  ::operator delete(seen(OF_PLAIN, ::operator new(n)), n);
  ::operator delete(seen(OF_PLAIN, ::operator new(n)), std::nothrow);
  ::operator delete(seen(OF_PLAIN, ::operator new(n, std::nothrow)), n);
  ::operator delete[](seen(OF_ARRAY, ::operator new[](n)));
  ::operator delete[](seen(OF_ARRAY, ::operator new[](n)), n);
  ::operator delete[](seen(OF_ARRAY, ::operator new[](n)), std::nothrow);
  ::operator delete[](seen(OF_ARRAY, ::operator new[](n, std::nothrow)), n);
}

static void aligned(size_t n, std::align_val_t a) {
  ::operator delete(seen(OF_ALIGNED, ::operator new(n, a)), a);
  ::operator delete(seen(OF_ALIGNED, ::operator new(n, a)), n, a);
  ::operator delete(seen(OF_ALIGNED, ::operator new(n, a)), a, std::nothrow);
  ::operator delete(seen(OF_ALIGNED, ::operator new(n, a, std::nothrow)), a);
  ::operator delete[](seen(OF_ALIGNED_ARRAY, ::operator new[](n, a)), a);
  ::operator delete[](seen(OF_ALIGNED_ARRAY, ::operator new[](n, a)), n, a);
  ::operator delete[](seen(OF_ALIGNED_ARRAY, ::operator new[](n, a)), a, std::nothrow);
  ::operator delete[](seen(OF_ALIGNED_ARRAY, ::operator new[](n, a, std::nothrow)), n, a);
}

// The operators of the program throw when that much is wanted; no form that must not throw lets it pass.
static void failing() {
  constexpr std::align_val_t a{64};
  if (OF_PLAIN != 0) CHECK(::operator new(TOO_MUCH, std::nothrow) == nullptr);
  if (OF_ARRAY != 0) CHECK(::operator new[](TOO_MUCH, std::nothrow) == nullptr);
  if (OF_ALIGNED != 0) CHECK(::operator new(TOO_MUCH, a, std::nothrow) == nullptr);
  if (OF_ALIGNED_ARRAY != 0) CHECK(::operator new[](TOO_MUCH, a, std::nothrow) == nullptr);
  bool was_thrown = false;
  try {
    if (OF_ARRAY == 0) throw std::bad_alloc();
    ::operator delete[](::operator new[](TOO_MUCH));
  } catch (const std::bad_alloc&) {
    was_thrown = true;
  }
  CHECK(was_thrown);
}

int main() {
  for (size_t n = 8; n < 5000; n += n / 2) {
    plain(n);
    aligned(n, std::align_val_t{64});
    aligned(n, std::align_val_t{4096});
  }
  failing();
  puts("all of one allocator");
}
