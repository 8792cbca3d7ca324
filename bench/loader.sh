#!/usr/bin/env bash
# The loader against Pillow in one process, both on core 0 and on the same JPEG shards, in turns:
#   bench/loader.sh BENCH_LOADER [TAR_GLOB] [SIZE=128]
# Without shards it makes some (500x375). PYTHON needs numpy and Pillow.
set -euo pipefail
bench=${1:?usage: bench/loader.sh BENCH_LOADER [TAR_GLOB] [SIZE]}
shards=${2:-}
size=${3:-128}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "$shards" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$bench" --make "$folder"
  shards="$folder/*.tar"
fi
for _ in 1 2 3; do
  native=$(taskset -c 0 "$bench" "$shards" "$size" 1)
  pillow=$(taskset -c 0 env OMP_NUM_THREADS=1 "$python" "$here/loader_pillow.py" "$shards" "$size")
  # Per CPU second, so that other work on the machine does not count.
  awk -v n="${native#*, }" -v p="${pillow#*, }" \
    'BEGIN { printf "nsvq %d, Pillow %d images per CPU second: %.2fx\n", n, p, n / p }'
done
