#!/usr/bin/env bash
# Prints what NSVQ_CUDA should be for a preset: choose_cuda.sh PRESET
# The kernels take nvcc most of the build time, so they are left out where no GPU is seen. What the caller set stays, and so does a
# build folder that was configured with CUDA.
set -u
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}
cache=build/$preset/CMakeCache.txt
if [ -n "${NSVQ_CUDA:-}" ]; then
  echo "$NSVQ_CUDA"
elif [ "$preset" = cuda ] || { [ -e "$cache" ] && ! grep -q '^NSVQ_CUDA:STRING=OFF' "$cache"; }; then
  exit 0  # as the preset says
elif ! { compgen -G '/dev/nvidia[0-9]*' || nvidia-smi -L; } >/dev/null 2>&1; then
  echo "build: no NVIDIA GPU seen, so without CUDA (NSVQ_CUDA=ON builds with it)" >&2
  echo OFF
fi
