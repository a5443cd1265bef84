# Shortcuts only: CMake (see CMakePresets.json) and the scripts do the work. Only deps, demo and test install packages; the
# others name what is missing.
PREFIX ?= /usr/local
BUILD := build/release
NEEDS := build

.PHONY: all demo test check long platforms deps bench compat docs site tidy fmt install amalgamation clean help
.DEFAULT_GOAL := all

all:
	@scripts/setup.sh --check $(NEEDS)
	cmake --preset release
	cmake --build --preset release

demo:
	@scripts/setup.sh demo
	@python3 demo/demo.py

test:
	@scripts/test.sh

check:
	@scripts/test.sh --quick

long:
	@scripts/long.sh $(WHAT)

platforms:
	@scripts/long.sh platforms

deps:
	@scripts/setup.sh $(FOR)

bench:
	@scripts/setup.sh --check bench
	@/usr/bin/python3 bench/run.py $(ARGS)

compat: NEEDS := compat
compat: all
	@scripts/setup.sh sources
	@/usr/bin/python3 scripts/compat.py $(ONLY) $(ARGS)

docs:
	@scripts/setup.sh --check docs
	@python3 scripts/docs.py

site:
	@scripts/setup.sh --check site
	@scripts/setup.sh sphinx
	@python3 scripts/website.py

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

help:
	@echo "make               build the release libraries into $(BUILD)"
	@echo "make install       install them below PREFIX ($(PREFIX))"
	@echo "make demo          real programs on the system's malloc and on ours, side by side"
	@echo "make test          build and run all tests"
	@echo "make check         the quick ones: style, unit and API tests"
	@echo "make long          what takes minutes to hours, such as WHAT=soak; without WHAT the list"
	@echo "make platforms     the tests on other processors, under emulators, and with musl; WHICH=\"s390x musl\" for these only"
	@echo "make bench         compare with other allocators; ARGS=--quick takes five minutes, ARGS=-h explains"
	@echo "make compat        programs of others with the library in front; ONLY=\"git redis\" runs these, ARGS=--peers others too"
	@echo "make deps          install what these four and check need; FOR=\"bench docs soak\" what other commands and long runs need"
	@echo "make site          web pages of all that is written: guide, reference, benchmarks and the rest, in build/site"
	@echo "make docs          the reference alone, in build/docs"
	@echo "make tidy, fmt     the style rules a machine can check; format all sources (clang-format)"
	@echo "make amalgamation  the library as one C file and its headers, in build/amalgamation"
	@echo "make clean         remove build/"
