#!/usr/bin/env bash
# Trains the small tokenizer of configs/quickstart.yaml and says what to do next: quickstart.sh NSVQ
set -u
cd "$(dirname "$0")/.." || exit 1
nsvq=${1:-build/release/nsvq}
"$nsvq" train configs/quickstart.yaml || { echo "quickstart: training failed; the line above says why" >&2; exit 1; }
cat <<EOF

Next, on your own photos (a folder of JPEG or PNG files, or tar shards):
  $nsvq train configs/photos.yaml data.train=PATH/TO/PHOTOS data.val=PATH/TO/PHOTOS
EOF
