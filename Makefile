# Shortcuts only: CMake (see CMakePresets.json) and the scripts do the work.
PREFIX ?= /usr/local
BUILD := build/release
STRESS := build/test/test/release/stress
FORKS ?= 10000
THREADS ?= 1000000
AT_ONCE ?= 2000

.PHONY: all demo test check sanitize models endurance docs tidy fmt install amalgamation clean bench help fuzz coverage faults service soak compat
.DEFAULT_GOAL := all

all:
	@scripts/setup.sh build
	cmake --preset release
	cmake --build --preset release

demo:
	@scripts/setup.sh build demo
	@python3 demo/demo.py

test:
	@scripts/test.sh

check:
	@scripts/test.sh --quick

sanitize:
	@scripts/setup.sh build test
	@python3 scripts/sanitize.py $(WHICH)

models:
	@scripts/setup.sh models
	@CARGO_TARGET_DIR=build/models RUST_BACKTRACE=0 cargo test --release --locked --manifest-path test/models/Cargo.toml

endurance:
	@scripts/setup.sh build test
	cmake --preset test
	cmake --build --preset test --target stress-forks-release stress-threads-release stress-crowd-release
	$(STRESS)/crowd --threads $(AT_ONCE) --waves 10
	$(STRESS)/threads --count $(THREADS) --at-once 1 --seconds 86400
	$(STRESS)/forks --count $(FORKS) --threads 32 --mib 100 --seconds 86400

fuzz:
	@scripts/setup.sh build fuzz
	@python3 scripts/fuzz.py $(if $(SECONDS),--seconds=$(SECONDS)) $(if $(TARGET),--target=$(TARGET)) $(ARGS)

coverage:
	@scripts/setup.sh build test coverage
	@python3 scripts/coverage.py

faults:
	@scripts/setup.sh build test faults
	@python3 scripts/faults.py $(foreach name,$(ONLY),--only $(name)) $(ARGS)

docs:
	@scripts/setup.sh docs
	@python3 scripts/docs.py

tidy:
	@python3 scripts/tidy.py .

fmt:
	git ls-files 'src/*.[ch]' 'include/*.h' 'test/*.[ch]' | xargs clang-format -i

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

amalgamation:
	@python3 scripts/amalgamate.py build/amalgamation/mimalloc.c
	@cp include/*.h build/amalgamation

clean:
	rm -rf build

bench:
	@scripts/setup.sh build bench
	@/usr/bin/python3 bench/run.py $(ARGS)

service: all
	@scripts/setup.sh plots
	cmake -S bench -B build/bench/cmake -G Ninja
	cmake --build build/bench/cmake --target bench-pool
	@/usr/bin/python3 bench/service.py $(ARGS)

compat: all
	@ONLY="$(ONLY)" scripts/setup.sh compat
	@/usr/bin/python3 scripts/compat.py $(ONLY) $(ARGS)

MINUTES ?= 30
SEED ?= 1

soak:
	@scripts/setup.sh build test plots
	cmake --preset test
	cmake --build --preset test --target soak soak-plain
	@/usr/bin/python3 test/soak/soak.py --minutes $(MINUTES) --seed $(SEED) $(ARGS)

help:
	@echo "make            build the release libraries into $(BUILD)"
	@echo "make demo       real programs on the system's malloc and on ours, side by side"
	@echo "make test       build and run all tests"
	@echo "make check      the quick ones: style, unit and API tests"
	@echo "make sanitize   the tests under the sanitizers and Valgrind; WHICH=\"asan tsan ubsan valgrind\" chooses"
	@echo "make models     explore the models of the lock-free protocols (test/models) as far as anyone can wait"
	@echo "make endurance  10,000 forks, a million threads, 2,000 at once: FORKS= THREADS= AT_ONCE= change that"
	@echo "make fuzz       look for inputs that break something; SECONDS=600 for each program, TARGET=calls for one"
	@echo "make coverage   which lines of src/ the tests run; as HTML in build/coverage"
	@echo "make faults     break one rule of the code after the other: the tests must see each; ONLY=pool-tag tries one"
	@echo "make bench      compare with other allocators; ARGS=--quick takes five minutes, ARGS=-h explains"
	@echo "make compat     programs of others with the library in front; ONLY=\"git redis\" runs these, ARGS=--peers others too"
	@echo "make service    a pool of 800 threads that wait: what lives and what is resident over time, with each allocator"
	@echo "make soak       a server's life for 30 minutes (MINUTES=, SEED=): memory over time, its bounds and its plot"
	@echo "make docs       the reference and the guide as HTML, in build/docs"
	@echo "make tidy       the style rules a machine can check"
	@echo "make fmt        format all sources (clang-format)"
	@echo "make install    install below PREFIX ($(PREFIX))"
	@echo "make amalgamation  the library as one C file and its headers, in build/amalgamation"
	@echo "make clean      remove build/"
