#!/usr/bin/env bash
# Trains rows of the paper's Table 1 at one equal budget and prints the table:
#   table1.sh FOLDER TRAIN_IMAGES VAL_IMAGES [ROW...]
# Rows are lines of configs/table1/rows.txt (all if none is named). Each is trained at the better, by PSNR on the
# validation images, of two learning rates, tried in pilots. "ms a step" is the median over a run. What is finished in FOLDER is
# never repeated, and a run that was stopped goes on, so the same command continues where the last one ended. Environment:
#   NSVQ      the program (build/release/nsvq)      STEPS  of a row (5000)   PILOT_STEPS  of a pilot (1500)
#   LRS       learning rates to try ("4e-4 1e-3")   SEED   (0)               MINUTES      no run begins later (0: no limit)
#   FEATURES  codes of vqgan-lc (nsvq codebook features); without them that row is left out
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1 train=$2 val=$3
shift 3
nsvq=${NSVQ:-build/release/nsvq} steps=${STEPS:-5000} pilot_steps=${PILOT_STEPS:-1500} seed=${SEED:-0} minutes=${MINUTES:-0}
read -ra lrs <<<"${LRS:-4e-4 1e-3}"
metrics=psnr,ssim,lpips-vgg,utilisation
"$nsvq" weights list | grep ' inception ' | grep -qv missing && metrics+=,fid

# figure FILE KEY: the first number of that name in a JSON file.
figure() { grep -oE "\"$2\": *[-0-9][-0-9.e+]*" "$1" | head -n 1 | sed 's/.*: *//'; }

out_of_time() { [ "$minutes" -gt 0 ] && [ $((SECONDS / 60)) -ge "$minutes" ]; }

# run DIR STEPS LR RECIPE OVERRIDES...: trains and evaluates. The schedule is in hundredths of the budget.
run() {
  local dir=$1 budget=$2 lr=$3 recipe=$4
  shift 4
  [ -f "$dir/eval.json" ] && return 0
  out_of_time && { echo "table1: out of time before $dir; the same command goes on" >&2; exit 0; }
  [[ $* == *warmup_steps=* ]] || set -- "$@" optimizer.schedule.warmup_steps=0
  local resume=()
  [ -f "$dir/run/config.yaml" ] && resume=(--resume)
  mkdir -p "$dir"
  echo "base: [\"$PWD/configs/table1/$recipe.yaml\", \"$PWD/configs/table1/gpu.yaml\"]" >"$dir/recipe.yaml"
  "$nsvq" train "$dir/recipe.yaml" "data.train=$train" "data.val=$val" \
    "train.steps=$budget" "optimizer.lr=$lr" "seed=$seed" "schedule.epoch_steps=$((budget / 100))" \
    schedule.freeze=epoch schedule.freeze_epoch=80 schedule.warmup_epochs=8 schedule.ramp_epochs=4 replacement.exempt_epochs=2 \
    adversarial.weight=0.1 "adversarial.start_step=$((budget * 2 / 5))" \
    drift.images=64 train.deterministic=false "$@" --run "$dir/run" "${resume[@]}" >>"$dir/log.txt" 2>&1 ||
    { tail -n 1 "$dir/log.txt" >&2; echo "table1: training $dir failed (log: $dir/log.txt)" >&2; return 1; }
  "$nsvq" eval "$dir/run" --data "$val" --metrics "$metrics" --json "$dir/eval.tmp" >>"$dir/log.txt" 2>&1 &&
    cp "$dir/run/metrics.jsonl" "$dir/" && mv "$dir/eval.tmp" "$dir/eval.json" && rm -rf "$dir/run/checkpoints"
}

# Folders of a pilot and of a row carry what was chosen outside of rows.txt.
pilot() { echo "$folder/pilot-$1-$pilot_steps-lr$2-seed$seed"; }

# best NAME: the learning rate whose pilot has the higher PSNR.
best() {
  for lr in "${lrs[@]}"; do echo "$(figure "$(pilot "$1" "$lr")/eval.json" psnr) $lr"; done | sort -g | tail -n 1 | cut -d' ' -f2
}

row() {
  local name=$1 recipe=$2
  shift 2
  if [ "$recipe" = vqgan-lc ]; then
    [ -n "${FEATURES:-}" ] || return 0
    set -- "$@" "quantizer.features.file=$FEATURES" quantizer.features.dim=512
  fi
  for lr in "${lrs[@]}"; do run "$(pilot "$name" "$lr")" "$pilot_steps" "$lr" "$recipe" "$@" || return; done
  local dir=$folder/$name-$steps-seed$seed
  run "$dir" "$steps" "$(best "$name")" "$recipe" "$@" || return
  local eval=$dir/eval.json last=$dir/last-epoch.json step=$dir/last-step.json
  grep '"kind":"epoch"' "$dir/metrics.jsonl" | tail -n 1 >"$last"
  grep '"kind":"step"' "$dir/metrics.jsonl" | tail -n 1 >"$step"
  local batch ms fid
  fid=$(figure "$eval" fid)
  [ -n "$fid" ] && fid=$(printf '%.1f' "$fid")
  batch=$(sed -n 's/^ *batch_size: //p' configs/table1/gpu.yaml)
  ms=$(grep -oE '"images_per_second": *[0-9.e+]+' "$dir/metrics.jsonl" | sed 's/.*: *//' | sort -g |
    awk -v batch="$batch" '{ rate[NR] = $1 } END { print 1000 * batch / rate[int((NR + 1) / 2)] }')
  printf '| %s | %s | %.1f %% | %.1f %% | %.2f | %.3f | %.3f | %s | %.1f | %.2f | %.2f |\n' "$name" "$(best "$name")" \
    "$(awk "BEGIN{print 100*$(figure "$last" utilisation)}")" "$(awk "BEGIN{print 100*$(figure "$eval" utilisation)}")" \
    "$(figure "$eval" psnr)" "$(figure "$eval" ssim)" "$(figure "$eval" lpips-vgg)" "$fid" \
    "$ms" "$(figure "$step" peak_memory_gib)" "$(figure "$step" peak_reserved_gib)"
}

echo "| row | lr | codes used: last epoch | validation | PSNR | SSIM | LPIPS-VGG | rFID | ms a step | GiB | reserved |"
echo "|---|---|---|---|---|---|---|---|---|---|---|"
while read -r name recipe overrides; do
  [[ $name == \#* || -z $name ]] && continue
  [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && continue
  # shellcheck disable=SC2086  # overrides are words
  row "$name" "$recipe" $overrides
done <configs/table1/rows.txt
