# Two commands do everything on a fresh Debian or Ubuntu machine:
#   make quickstart   set-up, build, then train, evaluate and show a small tokenizer
#   make test         set-up, build, every check and test
# PRESET=debug|asan|tsan|cuda picks another build (CMakePresets.json).

PRESET ?= release
NSVQ := build/$(PRESET)/nsvq

.PHONY: quickstart test build setup format bench clean

quickstart: build
	@scripts/quickstart.sh "$(NSVQ)"

test:
	@scripts/setup.sh test
	@scripts/build.sh $(PRESET)
	@scripts/check.sh
	@ctest --preset $(PRESET)

build: setup
	@scripts/build.sh $(PRESET)

setup:
	@scripts/setup.sh build

format:
	@scripts/setup.sh test
	@scripts/check.sh --fix

clean:
	@rm -rf build
