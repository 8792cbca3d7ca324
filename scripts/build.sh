#!/usr/bin/env bash
# Configures and builds one preset, or some targets of it: build.sh [release|debug|asan|tsan|cuda] [TARGET...]
# NSVQ_CUDA=AUTO, ON or OFF in the environment decides about CUDA.
set -u
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}
targets=("${@:2}")
log=build/$preset-configure.log
mkdir -p build
cmake --preset "$preset" ${NSVQ_CUDA:+"-DNSVQ_CUDA=$NSVQ_CUDA"} >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "build: configuring preset '$preset' failed (log: $log)" >&2; exit 1; }
grep -E '^-- nsvq:' "$log"
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"} || { echo "build: compiling preset '$preset' failed; the first error is above" >&2; exit 1; }
