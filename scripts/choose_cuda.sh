#!/usr/bin/env bash
# Prints what NSVQ_CUDA a build of a preset gets: choose_cuda.sh PRESET
# What the caller set counts, then what the build folder was configured with. A new folder gets the preset's own choice, else AUTO
# where a GPU is seen and OFF where none is: the kernels take nvcc most of the build time.
set -u
cd "$(dirname "$0")/.." || exit 1
preset=${1:-release}
if [ -n "${NSVQ_CUDA:-}" ]; then
  echo "$NSVQ_CUDA"
  exit
fi

case $preset in
  cuda) new=ON why="preset $preset has it" ;;
  asan | tsan | fuzz) new=OFF why="preset $preset has it" ;;
  *)
    if { compgen -G '/dev/nvidia[0-9]*' || nvidia-smi -L; } >/dev/null 2>&1; then
      new=AUTO why="an NVIDIA GPU is seen"
    else
      new=OFF why="no NVIDIA GPU is seen"
    fi
    ;;
esac

kept=$(sed -n 's/^NSVQ_CUDA:[A-Z]*=//p' "build/$preset/CMakeCache.txt" 2>/dev/null)
if [ -z "$kept" ]; then
  [ "$why" != "no NVIDIA GPU is seen" ] || echo "build: no NVIDIA GPU is seen, so without CUDA (NSVQ_CUDA=ON builds with it)" >&2
elif [ "$kept" != "$new" ] && [ "$kept-$new" != ON-AUTO ]; then
  echo "build: build/$preset keeps NSVQ_CUDA=$kept; a new folder would get $new, because $why (NSVQ_CUDA=$new changes this one)" >&2
fi
echo "${kept:-$new}"
