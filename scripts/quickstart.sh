#!/usr/bin/env bash
# Trains a small tokenizer by NSVQ and one by plain VQ, and shows both beside the images: quickstart.sh NSVQ
set -u
cd "$(dirname "$0")/.." || exit 1
nsvq=${1:-build/release/nsvq}
folder=runs/quickstart
fail() { echo "quickstart: $1; the line above says why (to begin again, remove $folder)" >&2; exit 1; }

"$nsvq" train configs/quickstart.yaml --run $folder/nsvq || fail "training failed"
echo
echo "quickstart: now plain VQ with the same model, images and number of epochs"
"$nsvq" train configs/quickstart-vq.yaml --run $folder/vq || fail "training failed"
echo
"$nsvq" compare $folder/nsvq $folder/vq --data 'builtin:dead-leaves?size=64&count=512&seed=1' --out $folder/compare.png --force --enlarge 2 ||
  fail "the comparison failed"
cat <<EOF

Look at $folder/compare.png: images, what NSVQ's tokens keep of them, what plain VQ's keep.
Next, on your own photos (a folder of JPEG or PNG files, or tar shards):
  $nsvq train configs/photos.yaml data.train=PATH/TO/PHOTOS data.val=PATH/TO/OTHER/PHOTOS
EOF
