#!/usr/bin/env bash
# Fuzzes the readers of files with libFuzzer under ASan and UBSan: [NSVQ_FUZZ_PROGRAM=fuzz_all] fuzz.sh SECONDS [TARGET...]
# fuzz_readers, the default, is compiled in some minutes; fuzz_all, with those of recipes and models, in half an hour.
# SECONDS are shared by the targets (tests/fuzz/targets_*.cpp; all if none is named), one a core at a time (NSVQ_FUZZ_JOBS). What was found that
# reaches new code is kept in build/fuzz-corpus for the next time. An input is a defect if it crashes, takes over
# 64 MiB in one allocation or longer than 5 seconds (1 second is printed); it is left in build/fuzz-defects.
# Ends with a table of executions and lines covered.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:?"fuzz.sh SECONDS [TARGET...]"}
shift
command -v clang++ >/dev/null || { echo "fuzz: needs clang with its runtime (Debian: clang, libclang-rt-14-dev, llvm)" >&2; exit 2; }
name=${NSVQ_FUZZ_PROGRAM:-fuzz_readers} jobs=${NSVQ_FUZZ_JOBS:-$(nproc)}
mkdir -p build
cmake --preset fuzz >build/fuzz-configure.log 2>&1 || { tail -n 5 build/fuzz-configure.log >&2; exit 1; }
ninja -C build/fuzz -j "$jobs" "$name" >build/fuzz-build.log 2>&1 || { tail -n 20 build/fuzz-build.log >&2; exit 1; }
program=$PWD/build/fuzz/$name corpus=$PWD/build/fuzz-corpus defects=$PWD/build/fuzz-defects logs=$PWD/build/fuzz-logs
mkdir -p "$corpus" "$defects" "$logs"
export TMPDIR=/dev/shm LLVM_PROFILE_FILE=/dev/null ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 OMP_NUM_THREADS=1
[ -d $TMPDIR ] || TMPDIR=/tmp
"$program" --seeds "$corpus" || exit 1
for format in jpg:jpeg png:png webp:webp; do cp tests/io/golden/images/*."${format%:*}" "$corpus/${format#*:}"; done
for target in tar tar_stream; do cp tests/io/golden/tars/*.tar "$corpus/$target"; done
cp tests/io/golden/npz/*.npz "$corpus/npz"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <("$program" --list)
each=$((seconds * jobs / ${#targets[@]}))

fuzz() {  # TARGET
  local known=tests/fuzz/corpus/$1
  rm -f "$logs/$1.failed"
  [ -d "$known" ] || known=
  NSVQ_FUZZ_TARGET=$1 "$program" "$corpus/$1" $known -max_total_time=$((each > 1 ? each : 1)) -max_len=12288 -len_control=100 -malloc_limit_mb=64 \
    -rss_limit_mb=2048 -timeout=5 -report_slow_units=1 -print_final_stats=1 -artifact_prefix="$defects/$1-" >"$logs/$1.log" 2>&1 && return
  touch "$logs/$1.failed"
  echo "fuzz: $1 failed (log: $logs/$1.log; input: $(ls -t "$defects/$1-"* 2>/dev/null | head -n 1))" >&2
}
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  fuzz "$target" &
done
wait

# Lines covered by the corpora.
rm -f "$logs"/*.profraw
for target in "${targets[@]}"; do
  known=tests/fuzz/corpus/$target
  [ -d "$known" ] || known=
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  NSVQ_FUZZ_TARGET=$target LLVM_PROFILE_FILE=$logs/$target.profraw "$program" "$corpus/$target" $known -runs=0 >/dev/null 2>&1 &
done
wait
echo "| target | executions | seconds | inputs kept | result |"
echo "|---|---|---|---|---|"
failed=0 total=0
for target in "${targets[@]}"; do
  log=$logs/$target.log
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  result=passed
  [ -e "$logs/$target.failed" ] && { result=failed; failed=1; }
  slow=$(grep -c '^Slowest unit' "$log")
  [ "$slow" -gt 0 ] && result="$result, $slow over 1 s"
  total=$((total + ${runs:-0}))
  echo "| $target | ${runs:-?} | $each | $(ls "$corpus/$target" | wc -l) | $result |"
done
echo "$total executions"
profdata=$(command -v llvm-profdata llvm-profdata-14 | head -n 1) cov=$(command -v llvm-cov llvm-cov-14 | head -n 1)
[ -n "$profdata" ] && [ -n "$cov" ] || { echo "fuzz: no coverage by line without llvm-profdata and llvm-cov (Debian: llvm)"; exit $failed; }
"$profdata" merge -o "$logs/all.profdata" "$logs"/*.profraw
readers='exif jpeg_decode jpeg_errors png webp image tar tar_headers decompress safetensors safetensors_header
  token_shard token_manifest folder_checksums npy npz json input_file yaml patterns image_names combined_sources
  pickle pytorch_pickle pytorch_file old_pytorch_file tar_pytorch_file pickle_reading hostile_names
  pipe_index runs/state runs/log runs/named_numbers'
[ "$name" = fuzz_readers ] || readers="$readers run_config tokenizer_config model_file open_model foreign_weights their_weights layouts/infer layouts/names layout contents_hash option option_table settings_reader"
mapfile -t readers < <(for reader in $readers; do find nsvq -path "*/$reader.cpp"; done)
python3 scripts/fuzz_coverage.py "$cov" "$program" "$logs/all.profdata" "${readers[@]}"
exit $failed
