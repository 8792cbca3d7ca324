#!/usr/bin/env bash
# Compiles every CUDA source for one GPU target (90a), without linking: nvcc is enough, no GPU is needed.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
command -v nvcc >/dev/null || [ -n "${CUDACXX:-}" ] || [ -x /usr/local/cuda/bin/nvcc ] || { echo "cuda-check: no nvcc here, nothing is compiled"; exit 0; }
folder=build/cuda-check
mkdir -p build
cmake --preset cuda -B $folder -DCMAKE_CUDA_ARCHITECTURES=90a-real -DNSVQ_TESTS=OFF -DNSVQ_BENCH=OFF >build/cuda-check-configure.log 2>&1 ||
  { tail -n 20 build/cuda-check-configure.log >&2; echo "cuda-check: configuring failed (log: build/cuda-check-configure.log)" >&2; exit 1; }
mapfile -t objects < <(ninja -C $folder -t targets all | sed -nE 's/^(.*(\.cu|_cuda\.cpp)\.o): .*/\1/p')
[ ${#objects[@]} -gt 0 ] || { echo "cuda-check: no CUDA source found" >&2; exit 1; }
export NINJA_STATUS='[%f/%t %e] '
plan=$(ninja -C $folder -n "${objects[@]}") || { printf '%s\n' "$plan" >&2; exit 1; }
ninja -C $folder "${objects[@]}" | scripts/build_progress.sh <(printf '%s\n' "$plan") || { echo "cuda-check: a CUDA source does not compile" >&2; exit 1; }
echo "cuda-check: ${#objects[@]} CUDA sources compile"
