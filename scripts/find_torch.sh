#!/usr/bin/env bash
# Prints the folder of the LibTorch to build with (the one that holds include/ and lib/), or nothing.
# Order: $NSVQ_TORCH, the active Python's torch if it is 2.9 or newer, the one `make setup` installed.
set -u
cache=${NSVQ_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or NSVQ_CACHE}/.cache}/nsvq}

is_libtorch() { [ -e "$1/lib/libtorch_cpu.so" ] && [ -e "$1/include/torch/csrc/api/include/torch/torch.h" ]; }

if [ -n "${NSVQ_TORCH:-}" ]; then
  for folder in "$NSVQ_TORCH" "$NSVQ_TORCH/torch"; do
    is_libtorch "$folder" && { (cd "$folder" && pwd); exit 0; }
  done
  echo "find_torch: NSVQ_TORCH=$NSVQ_TORCH holds no LibTorch (lib/libtorch_cpu.so, include/torch/); point it at the torch package's folder or unset it" >&2
  exit 1
fi

# find_spec and version.py instead of `import torch`: the import alone takes seconds.
active=$(python3 - 2>/dev/null <<'PY'
import importlib.util, os, re
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    folder = os.path.dirname(spec.origin)
    version = re.search(r"__version__ = '(\d+)\.(\d+)", open(os.path.join(folder, "version.py")).read())
    if version and tuple(map(int, version.groups())) >= (2, 9):
        print(folder)
PY
)
[ -n "$active" ] && is_libtorch "$active" && { echo "$active"; exit 0; }
[ -e "$cache/torch-2.11.0/complete" ] || exit 0
for folder in "$cache"/torch-2.11.0/lib/python3*/site-packages/torch; do
  is_libtorch "$folder" && { echo "$folder"; exit 0; }
done
exit 0
