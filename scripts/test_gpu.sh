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
  # Our kernels alone, and each tensor in memory of its own, so that an access past its end is one.
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1
  for tool in memcheck racecheck; do
    "$sanitizer" --tool "$tool" --kernel-name kernel_substring=nsvq --error-exitcode 1 \
      build/cuda/test_ops --gtest_brief=1 --gtest_filter='*CUDA*:*Gpu*:-Exactness*' || { echo "test_gpu: $tool found something" >&2; failed=1; }
  done
fi
[ $failed = 0 ] && echo "test_gpu: all passed"
exit $failed
