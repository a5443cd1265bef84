// SPDX-License-Identifier: MIT
// soak.c - a server's life in short: phases of different load, again and again, for a given time.
//
//   soak --seconds S --cycles N --seed N --sample-ms N --out FILE
//
// If this fails, a program that runs for weeks grows, hangs, or finds foreign bytes in its blocks.
// Each cycle runs every phase and ends with a quiet one. A thread of its own writes a line to FILE
// every so often: what lives (our count), what the library has committed, what is resident, how
// many areas are mapped and how many threads there are. soak.py runs this, draws the lines, and
// knows the bounds; here only contents are judged. The first lines, "start", are from before the
// first allocation of the load, the last, "end", from after everything was freed and collected.
#include "soak.h"

#include "proc.h"

#include <errno.h>
#include <getopt.h>
#include <stdatomic.h>

#define SOAK_SPARE_S 120 // a phase that takes so much longer hangs
#define SOAK_EDGE_SAMPLES 5 // at the start and the end

typedef struct soak_plan_s {
  uint64_t seconds, cycles, seed, sample_ms;
  const char* out;
} soak_plan_t;

static _Atomic(const char*) soak_now; // name of the phase
static atomic_size_t soak_cycle; // from 1
static atomic_bool soak_is_done;

// -- samples: nothing here allocates --

static int soak_open_file(const char* name, int flags) {
  const int file = open(name, flags | O_CLOEXEC, 0666);
  CHECK_SAY(file >= 0, "%s: %s", name, strerror(errno));
  return file;
}

static size_t soak_thread_count(void) {
  char text[1024] = {0};
  const int file = soak_open_file("/proc/self/stat", O_RDONLY);
  CHECK(read(file, text, sizeof(text) - 1) > 0);
  close(file);
  const char* at = strrchr(text, ')'); // the name of the program may hold anything
  CHECK_SAY(at != NULL, "/proc/self/stat is: %s", text);
  for (int field = 2; field < 20 && at != NULL; field++) at = strchr(at + 1, ' ');
  CHECK_SAY(at != NULL, "/proc/self/stat is: %s", text);
  return strtoul(at, NULL, 10);
}

static void soak_sample(int out, uint64_t start_ms) {
  const uint64_t ms = load_now_ms() - start_ms;
  const size_t live = soak_live();
  const int written = dprintf(out, "%llu,%zu,%s,%zu,%zu,%zu,%zu,%zu,%zu\n", (unsigned long long)ms,
                              atomic_load(&soak_cycle), atomic_load(&soak_now), live / LOAD_KIB,
                              soak_committed() / LOAD_KIB, load_rss() / LOAD_KIB, proc_areas(),
                              soak_thread_count(), soak_made());
  CHECK_SAY(written > 0, "the samples cannot be written: %s", strerror(errno));
}

typedef struct soak_sampler_s {
  int out;
  uint64_t start_ms, every_ms;
} soak_sampler_t;

static void* soak_sample_always(void* argument) {
  const soak_sampler_t* const sampler = (const soak_sampler_t*)argument;
  while (!atomic_load(&soak_is_done)) {
    soak_sample(sampler->out, sampler->start_ms);
    load_wait_ms((long)sampler->every_ms);
  }
  return NULL;
}

// -- cycles --

static const soak_phase_t soak_last = {"quiet", &soak_quiet, 2};

static const soak_phase_t* soak_phase(size_t i) {
  if (i < soak_phase_count) return &soak_phases[i];
  i -= soak_phase_count;
  return i < soak_own_phase_count ? &soak_own_phases[i] : &soak_last;
}

static void soak_run(const soak_plan_t* plan, uint64_t* random) {
  const size_t count = soak_phase_count + soak_own_phase_count + 1;
  uint64_t parts = 0;
  for (size_t i = 0; i < count; i++) parts += soak_phase(i)->parts;
  for (uint64_t cycle = 1; cycle <= plan->cycles; cycle++) {
    atomic_store(&soak_cycle, cycle);
    for (size_t i = 0; i < count; i++) {
      const soak_phase_t* const phase = soak_phase(i);
      const uint64_t phase_ms = plan->seconds * 1000 * phase->parts / (plan->cycles * parts);
      alarm((unsigned)(phase_ms / 1000) + SOAK_SPARE_S);
      soak_turn_t turn = {load_now_ms() + phase_ms, random_next(random), 0};
      atomic_store(&soak_now, phase->name);
      phase->run(&turn);
    }
    soak_check_eternal();
  }
}

// -- arguments --

static uint64_t soak_number(const char* name, const char* text, uint64_t most) {
  char* end = NULL;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value == 0 || value > most) {
    dprintf(2, "soak: --%s must be a number from 1 to %llu, not '%s'\n", name,
            (unsigned long long)most, text);
    _exit(2);
  }
  return value;
}

static soak_plan_t soak_parse(int argc, char** argv) {
  enum { SECONDS, CYCLES, SEED, SAMPLE_MS, OUT };
  static const struct option options[] = {{"seconds", required_argument, NULL, SECONDS},
                                          {"cycles", required_argument, NULL, CYCLES},
                                          {"seed", required_argument, NULL, SEED},
                                          {"sample-ms", required_argument, NULL, SAMPLE_MS},
                                          {"out", required_argument, NULL, OUT},
                                          {NULL, 0, NULL, 0}};
  soak_plan_t plan = {1800, 10, 1, 1000, "soak.csv"};
  int which;
  while ((which = getopt_long(argc, argv, "", options, NULL)) >= 0) {
    switch (which) {
      case SECONDS:
        plan.seconds = soak_number("seconds", optarg, 30 * 24 * 3600);
        break;
      case CYCLES:
        plan.cycles = soak_number("cycles", optarg, 1000000);
        break;
      case SEED:
        plan.seed = soak_number("seed", optarg, UINT64_MAX);
        break;
      case SAMPLE_MS:
        plan.sample_ms = soak_number("sample-ms", optarg, 60000);
        break;
      case OUT:
        plan.out = optarg;
        break;
      default:
        _exit(2); // getopt has said why
    }
  }
  if (optind < argc) {
    dprintf(2,
            "soak: '%s' is no option; there are --seconds, --cycles, --seed, --sample-ms, --out\n",
            argv[optind]);
    _exit(2);
  }
  return plan;
}

int main(int argc, char** argv) {
  const soak_plan_t plan = soak_parse(argc, argv);
  signal(SIGALRM, &load_hangs);
  uint64_t random = plan.seed;
  soak_sampler_t sampler = {soak_open_file(plan.out, O_WRONLY | O_CREAT | O_TRUNC), load_now_ms(),
                            plan.sample_ms};
  dprintf(sampler.out, "ms,cycle,phase,live_kib,committed_kib,resident_kib,areas,threads,blocks\n");
  soak_open();
  soak_own_open();
  atomic_store(&soak_now, "start");
  for (int i = 0; i < SOAK_EDGE_SAMPLES; i++) soak_sample(sampler.out, sampler.start_ms);
  atomic_store(&soak_now, "fill");
  soak_fill(&random);
  const pthread_t thread = soak_start(&soak_sample_always, &sampler);
  soak_run(&plan, &random);
  atomic_store(&soak_is_done, true);
  pthread_join(thread, NULL);

  soak_close();
  CHECK_SAY(soak_live() == 0, "%zu bytes are counted as live at the end", soak_live());
  soak_collect(true);
  atomic_store(&soak_now, "end");
  for (int i = 0; i < SOAK_EDGE_SAMPLES; i++) soak_sample(sampler.out, sampler.start_ms);
  return 0;
}
