# Two commands do everything on a fresh Debian or Ubuntu machine:
#   make quickstart   set-up, build, then train a small tokenizer by NSVQ and by plain VQ, and show both
#   make test         set-up, build, every check and every test of less than a minute
# make install PREFIX=~/.local installs the program.
# PRESET=debug|asan|tsan|cuda picks another build (CMakePresets.json). The CUDA kernels are built where a GPU is seen, NSVQ_CUDA=ON|OFF
# decides otherwise; a build folder keeps what it was configured with.

PRESET ?= release
NSVQ := build/$(PRESET)/nsvq

.PHONY: quickstart test test-all test-build test-gpu cuda-check fuzz check build wheel install setup format bench clean

# The program alone: the tests take as long again to compile.
quickstart: setup
	@scripts/build.sh $(PRESET) nsvq
	@scripts/quickstart.sh "$(NSVQ)"

# All that takes less than a minute each.
test: test-build
	@NSVQ_REQUIRE_PYTHON=1 ctest --preset $(PRESET) --label-exclude slow

# What takes longer too (tests/slow.txt, each header by itself).
test-all: test-build
	@NSVQ_REQUIRE_PYTHON=1 ctest --preset $(PRESET)

test-build:
	@scripts/setup.sh test
	@scripts/check.sh
	@scripts/build.sh $(PRESET)

# Every CUDA source compiles for one target; needs nvcc, no GPU.
cuda-check: setup
	@scripts/cuda_check.sh

# Readers of files under libFuzzer for SECONDS in all (10 minutes).
SECONDS ?= 600
fuzz:
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(SECONDS)

# Formatting, the order of folders and clang-tidy; compiler warnings show in every build.
check:
	@scripts/setup.sh lint
	@scripts/check.sh
	@scripts/lint.sh

# What needs a GPU, also under compute-sanitizer.
test-gpu: setup
	@scripts/test_gpu.sh

build: setup
	@scripts/build.sh $(PRESET)

# A wheel of the Python package in build/wheels, for the torch at hand; NSVQ_CUDA=ON|OFF names it after what it was built for.
wheel: setup
	@scripts/wheel.sh

# Program, operators for Python, recipes and completions below PREFIX; LibTorch stays where it is.
PREFIX ?= /usr/local
install: setup
	@scripts/build.sh $(PRESET) nsvq nsvq_ops_python
	@cmake --install build/$(PRESET) --prefix "$(patsubst ~/%,$(HOME)/%,$(PREFIX))"

setup:
	@scripts/setup.sh build

format:
	@scripts/setup.sh test
	@scripts/check.sh --fix

# The loader against Pillow; the other benchmarks are scripts to run by hand.
bench: build
	@scripts/setup.sh test
	@PYTHON="$$(scripts/test_python.sh)" bench/loader.sh build/$(PRESET)/bench_loader

clean:
	@rm -rf build
