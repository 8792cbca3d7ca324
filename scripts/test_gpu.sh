#!/usr/bin/env bash
# What needs a GPU: builds with CUDA, runs the tests of what runs there, and the operators' GPU tests again under
# compute-sanitizer (memcheck, racecheck). NSVQ_SANITIZER=off leaves the last part out.
set -u
cd "$(dirname "$0")/.." || exit 1
nvidia-smi -L >/dev/null 2>&1 || { echo "test_gpu: no NVIDIA GPU here (nvidia-smi -L); run it on a machine with one" >&2; exit 2; }
tests="ops nn quantizers losses metrics data train"
for name in $tests; do
  NSVQ_CUDA=ON scripts/build.sh cuda "test_$name" || exit 1
done

failed=0
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # references on a CPU are small: more threads wait for each other
for name in $tests; do
  "build/cuda/test_$name" --gtest_brief=1 || { echo "test_gpu: test_$name failed" >&2; failed=1; }
done

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ "${NSVQ_SANITIZER:-on}" = off ]; then
  echo "test_gpu: without compute-sanitizer, as asked"
elif ! [ -x "$sanitizer" ]; then
  echo "test_gpu: no compute-sanitizer; it comes with the CUDA toolkit" >&2
  failed=1
else
  # Our kernels alone; what takes minutes there has a smaller twin that is run.
  filter='*CUDA*:*Gpu*:-Exactness*:CrowdedCodes.SearchAndLoss*'
  checked() {
    "$sanitizer" --tool "$1" --kernel-name kernel_substring=nsvq --error-exitcode 1 \
      "$2" --gtest_brief=1 --gtest_filter="$filter" || { echo "test_gpu: $1 found something" >&2; failed=1; }
  }
  # Each tensor in memory of its own, so that an access past its end is one.
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 checked memcheck build/cuda/test_ops
  # Racecheck cannot follow bulk copies: tiles are copied by plain writes, with the same barriers.
  NSVQ_CUDA=ON scripts/build.sh racecheck test_ops || exit 1
  checked racecheck build/racecheck/test_ops
fi
[ $failed = 0 ] && echo "test_gpu: all passed"
exit $failed
