#!/usr/bin/env bash
# What needs a GPU: builds with CUDA, runs the tests of what runs there, and the operators' GPU tests again under
# compute-sanitizer (memcheck, synccheck, racecheck). NSVQ_SANITIZER=off leaves the last part out.
set -u
cd "$(dirname "$0")/.." || exit 1
nvidia-smi -L >/dev/null 2>&1 || { echo "test_gpu: no NVIDIA GPU here (nvidia-smi -L); run it on a machine with one" >&2; exit 2; }
tests=(ops nn dist quantizers losses metrics data tokenizer train diffusion generation)
NSVQ_CUDA=ON scripts/build.sh cuda "${tests[@]/#/test_}" nsvq_ops_python || exit 1

failed=0
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # references on a CPU are small: more threads wait for each other
for name in "${tests[@]}"; do
  "build/cuda/test_$name" --gtest_brief=1 || { echo "test_gpu: test_$name failed" >&2; failed=1; }
done
python=$(scripts/test_python.sh)
if [ -x "$python" ]; then
  PYTHONPATH=python NSVQ_OPS_LIBRARY=build/cuda/libnsvq_ops.so "$python" -B tests/python/package.py -k test_gpu ||
    { echo "test_gpu: the Python package's tests failed" >&2; failed=1; }
else
  echo "test_gpu: without the Python package's tests; \`make test\` installs their Python"
fi

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ "${NSVQ_SANITIZER:-on}" = off ]; then
  echo "test_gpu: without compute-sanitizer, as asked"
elif ! [ -x "$sanitizer" ]; then
  echo "test_gpu: no compute-sanitizer; it comes with the CUDA toolkit" >&2
  failed=1
else
  checked() {  # TOOL LEFT_OUT [OPTION...]: our kernels alone
    echo "test_gpu: $1"
    "$sanitizer" --tool "$1" "${@:3}" --kernel-name kernel_substring=nsvq --error-exitcode 1 build/cuda/test_ops \
      --gtest_brief=1 --gtest_filter="*CUDA*:*Gpu*:-$2" || { echo "test_gpu: $1 failed" >&2; failed=1; }
  }
  large='Exactness*:CrowdedCodes.SearchAndLoss*:CrowdedCodes.FarAwayOnTheGpu:BlockedSearch.OfSeveralBlocks*:BlockedSearch.Repeats*'  # take minutes there; smaller ones are run
  # Each tensor in memory of its own, so that an access past its end is one.
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 checked memcheck "$large"
  checked synccheck "$large"
  # Without what racecheck cannot follow (docs/kernels.md): some tests, and the kernels of files *_sm90.cu.
  checked racecheck "$large:CrowdedCodes*" --kernel-name-exclude kernel_substring=sm90_cu
fi
[ $failed = 0 ] && echo "test_gpu: all passed"
exit $failed
