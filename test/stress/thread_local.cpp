// SPDX-License-Identifier: MIT
// Objects of C++ that are local to a thread allocate and free in their destructors: before the
// thread-specific values go, of which ours is one, and after, when a destructor of such a value
// makes a new one. If this fails, programs in C++ crash when a thread ends, or grow with each.
#include <pthread.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "load.h"

#define THREADS ((size_t)3000)
#define TIME_MS 3000
#define GROWTH_MAX (6 * LOAD_MIB)

static std::atomic<size_t> destroyed{0}, late_calls{0};
static pthread_key_t late_key; // made after ours

struct Local {
  std::vector<std::string> names;
  std::map<int, std::unique_ptr<std::string>> table;
  ~Local() {
    // Half goes, something new comes, all of it goes.
    names.resize(names.size() / 2);
    for (int i = 0; i < 50; i++) names.push_back(std::string(100 + i * 7, 'd'));
    table[1000] = std::make_unique<std::string>(5000, 'e');
    CHECK_SAY(names.back().size() == 443 && names.front()[0] == 'a', "what a thread had");
    if (pthread_getspecific(late_key) == nullptr) {
      pthread_setspecific(late_key, new std::string(300, 's'));
    }
    destroyed++;
  }
};

static thread_local Local local;

// After ours, and again in the next round: as long as libc goes on.
static void on_late(void* value) {
  auto* const text = static_cast<std::string*>(value);
  late_calls++;
  CHECK_SAY((*text)[0] == 's', "a block of the thread");
  if (text->size() < 1200) pthread_setspecific(late_key, new std::string(text->size() * 2, 's'));
  delete text;
}

static void work(size_t number) {
  for (size_t i = 0; i < 30; i++) {
    local.names.push_back(std::string(20 + (number + i * 37) % 900, 'a'));
    local.table[(int)i] = std::make_unique<std::string>(i * 11, 'b');
  }
}

static size_t run(size_t first, size_t count, uint64_t deadline_ms) {
  size_t done = 0;
  for (; done < count && load_now_ms() < deadline_ms; done += 4) {
    load_alive();
    std::deque<std::thread> threads;
    for (size_t i = 0; i < 4; i++) threads.emplace_back(&work, first + done + i);
    for (auto& thread : threads) thread.join();
  }
  return done;
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  std::thread([] { work(0); }).join(); // our key is made
  CHECK(pthread_key_create(&late_key, &on_late) == 0);
  const size_t count = load_scale(&load, THREADS);
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  const size_t warm = run(0, count / 8, deadline_ms);
  const size_t before = load_rss();
  const size_t more = run(warm, count - count / 8, deadline_ms);
  const size_t after = load_rss();
  printf("threads %zu, late calls %zu: resident %zu KiB, then %zu KiB\n", warm + more,
         late_calls.load(), before / LOAD_KIB, after / LOAD_KIB);
  fflush(stdout);
  CHECK_SAY(destroyed == warm + more + 1, "%zu destructors", destroyed.load());
  CHECK_SAY(late_calls >= 2 * (warm + more), "%zu late calls", late_calls.load());
  CHECK_SAY(after <= before + GROWTH_MAX, "grew by %zu KiB", (after - before) / LOAD_KIB);
  work(1); // the object of this thread goes when the program ends
  return 0;
}
