# The front door. The work is done by CMake (see CMakePresets.json); these are the sentences worth remembering.
#
#   make            installs what is missing (Debian packages), builds build/release/cli/gpipe
#   make demo       trains a small GPT on real text through two partitions
#   make test       builds and passes all tests
#   make bench      prints the benchmarks (docs/benchmarks.md)
#   make interop    checks against the programs that gpipe exchanges files with (docs/interop.md)
#   make check      what CI runs: formatting, warnings, analysers, tests, sanitizers, installation
#   make install    installs to PREFIX (default /usr/local)

PREFIX ?= /usr/local
BUILD := build/release
JOBS ?= $(shell nproc)
WERROR ?= OFF

.PHONY: all dependencies demo test bench interop check format install clean

CONFIGURE = cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DGPIPE_WERROR=$(WERROR) >/dev/null
# One line that moves on a terminal, silence elsewhere.
COMPILE = cmake --build $(BUILD) -j $(JOBS)
QUIET = $(if $(MAKE_TERMOUT),,-- --quiet)

all: dependencies
	@$(CONFIGURE)
	@echo "building (some minutes the first time)"
	@$(COMPILE) $(QUIET)

dependencies:
	@tools/install-dependencies

# The program alone, without tests and benchmarks.
demo: dependencies
	@$(CONFIGURE)
	@echo "building (some minutes the first time)"
	@$(COMPILE) --target gpipe-command $(QUIET)
	@tools/demo $(BUILD)/cli/gpipe

test: all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

bench: all
	@tools/bench $(BUILD)

interop: all
	@tools/interop $(BUILD)

check:
	@tools/check

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@cmake --install $(BUILD)

clean:
	rm -rf build
