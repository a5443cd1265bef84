// A program written for gperftools, in C++: it reaches the library by the class MallocExtension, and by tc_new and its
// relatives. It runs with the library of gperftools, and with ours of that name.
#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>

#include <new>
#include <string>
#include <vector>

#include "compat.h"

static void visit_range(void*, const base::MallocRange*) {}

static void of_class() {
  MallocExtension::Initialize();
  MallocExtension* const extension = MallocExtension::instance();
  CHECK(extension != nullptr && extension == MallocExtension::instance());
  char* const p = new char[100000];
  CHECK(extension->VerifyAllMemory() && extension->VerifyNewMemory(p));
  CHECK(extension->VerifyArrayNewMemory(p) && extension->VerifyMallocMemory(p));
  int blocks = -1, histogram[kMallocHistogramSize];
  size_t total = 77, value = 0;
  CHECK(extension->MallocMemoryStats(&blocks, &total, histogram) && blocks >= 0 && total != 77);
  char text[4000];
  extension->GetStats(text, sizeof(text));
  CHECK(std::string(text).find("MALLOC:") != std::string::npos);
  std::string sample, growth;
  extension->GetHeapSample(&sample);
  extension->GetHeapGrowthStacks(&growth);
  extension->Ranges(nullptr, &visit_range);
  CHECK(extension->GetNumericProperty("generic.current_allocated_bytes", &value) &&
        value >= 100000);
  CHECK(!extension->GetNumericProperty("no.such.property", &value));
  CHECK(extension->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 20 << 20));
  CHECK(extension->GetNumericProperty("tcmalloc.max_total_thread_cache_bytes", &value) &&
        value == 20 << 20);
  extension->MarkThreadIdle();
  extension->MarkThreadBusy();
  extension->SetSystemAllocator(extension->GetSystemAllocator());
  extension->ReleaseToSystem(100);
  extension->ReleaseFreeMemory();
  extension->SetMemoryReleaseRate(2.5);
  EQUAL(extension->GetMemoryReleaseRate() * 10, 25);
  CHECK(extension->GetEstimatedAllocatedSize(100) >= 100);
  CHECK(extension->GetAllocatedSize(p) >= 100000);
  EQUAL(extension->GetOwnership(p), MallocExtension::kOwned);
  EQUAL(extension->GetOwnership(&value), MallocExtension::kNotOwned);
  std::vector<MallocExtension::FreeListInfo> lists;
  extension->GetFreeListSizes(&lists);
  int period = 77;
  delete[] extension->ReadStackTraces(&period);
  delete[] extension->ReadHeapGrowthStackTraces();
  extension->GetThreadCacheSize();
  extension->MarkThreadTemporarilyIdle();
  delete[] p;
}

static void throws() { throw std::bad_alloc(); }

// While the new-handler throws.
static void of_nothrow(size_t huge) {
  const std::align_val_t alignment{256};
  std::set_new_handler(throws);
  CHECK(tc_new_nothrow(huge, std::nothrow) == nullptr);
  CHECK(tc_newarray_nothrow(huge, std::nothrow) == nullptr);
  CHECK(tc_new_aligned_nothrow(huge, alignment, std::nothrow) == nullptr);
  CHECK(tc_newarray_aligned_nothrow(huge, alignment, std::nothrow) == nullptr);
  std::set_new_handler(nullptr);
}

static void of_names() {
  const std::align_val_t alignment{256};
  tc_delete(tc_new(100));
  tc_delete_sized(tc_new(100), 100);
  tc_delete_nothrow(tc_new_nothrow(100, std::nothrow), std::nothrow);
  tc_deletearray(tc_newarray(100));
  tc_deletearray_sized(tc_newarray(100), 100);
  tc_deletearray_nothrow(tc_newarray_nothrow(100, std::nothrow), std::nothrow);
  void* const p = tc_new_aligned(100, alignment);
  EQUAL(reinterpret_cast<uintptr_t>(p) % 256, 0);
  tc_delete_aligned(p, alignment);
  tc_delete_sized_aligned(tc_new_aligned(100, alignment), 100, alignment);
  tc_delete_aligned_nothrow(tc_new_aligned_nothrow(100, alignment, std::nothrow), alignment,
                            std::nothrow);
  void* const q = tc_newarray_aligned(100, alignment);
  EQUAL(reinterpret_cast<uintptr_t>(q) % 256, 0);
  tc_deletearray_aligned(q, alignment);
  tc_deletearray_sized_aligned(tc_newarray_aligned(100, alignment), 100, alignment);
  tc_deletearray_aligned_nothrow(tc_newarray_aligned_nothrow(100, alignment, std::nothrow),
                                 alignment, std::nothrow);
  delete static_cast<char*>(tc_new(1)); // they are those of delete
  volatile size_t huge = PTRDIFF_MAX / 2;
  bool is_thrown = false;
  try {
    tc_new(huge);
  } catch (const std::bad_alloc&) {
    is_thrown = true;
  }
  CHECK(is_thrown && tc_new_nothrow(huge, std::nothrow) == nullptr);
  of_nothrow(huge);
  EQUAL(tc_set_new_mode(1), 0);
  EQUAL(tc_set_new_mode(0), 1);
}

int main() {
  of_class();
  of_names();
}
