#!/usr/bin/env bash
# The loss of 200 steps from the same weights on the same images: fp32, bf16 operation by operation and as CUDA graphs,
# and PyTorch in bf16. numerics.sh NSVQ IMAGES [STEPS], on a GPU: IMAGES is a folder of PNG files of 128x128, which
# are one batch.
# Needs lpips-vgg in the store of weights (nsvq weights get lpips-vgg).
set -eu
nsvq=$1 images=$2 steps=${3:-200}
batch=$(find "$images" -name '*.png' | wc -l)
store=${NSVQ_WEIGHTS:-$HOME/.cache/nsvq/weights}
here=$(cd "$(dirname "$0")" && pwd)
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
run() {
  name=$1
  shift
  "$nsvq" train "$here/../configs/imagenet-128.yaml" data.train="$images" data.val="$images" \
    train.batch_size="$batch" replacement.policy=none \
    drift.images=0 'schedule.phases=[stage1]' schedule.freeze=never train.epochs=100000 train.log_every=1 \
    train.eval_every=0 train.samples_every=0 checkpoint.every_steps=100000 "$@" --run "$runs/$name" \
    >"$runs/$name.log" 2>&1 || { tail -n 3 "$runs/$name.log" >&2; exit 1; }
}
run begin train.steps=1 optimizer.lr=1e-30 train.precision=fp32
run fp32 train.steps="$steps" train.precision=fp32
run bf16 train.steps="$steps" train.precision=bf16 train.graphs=false
run graphs train.steps="$steps" train.precision=bf16
python3 "$here/numerics_torch.py" "$runs/begin" "$images" "$store/vgg16.safetensors" "$store/lpips-vgg.safetensors" \
  "$steps" >"$runs/torch.json"
python3 "$here/numerics_table.py" "$runs"
