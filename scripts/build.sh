#!/usr/bin/env bash
# Configures and builds one preset, or some targets of it: build.sh [release|debug|asan|tsan|cuda] [TARGET...]
# NSVQ_CUDA=AUTO, ON or OFF in the environment decides about CUDA; without it scripts/choose_cuda.sh does.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}
targets=("${@:2}")
log=build/$preset-configure.log
mkdir -p build
cuda=$(scripts/choose_cuda.sh "$preset") || exit 1
cmake --preset "$preset" "-DNSVQ_CUDA=$cuda" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "build: configuring preset '$preset' failed (log: $log)" >&2; exit 1; }
grep -E '^-- nsvq:' "$log"

export NINJA_STATUS='[%f/%t %e] '  # what build_progress.sh reads
# What there is to do. Under its own name ninja would want to run CMake again first, and in a dry run end there.
plan=$(cd "build/$preset" && ln -sf build.ninja plan.ninja && ninja -f plan.ninja -n "${targets[@]}") || { printf '%s\n' "$plan" >&2; exit 1; }
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"} | scripts/build_progress.sh <(printf '%s\n' "$plan") ||
  { echo "build: compiling preset '$preset' failed; the first error is above" >&2; exit 1; }
