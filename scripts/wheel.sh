#!/usr/bin/env bash
# `make wheel`: a wheel of the Python package in build/wheels, for the torch of scripts/find_torch.sh (docs/python.md).
# NSVQ_CUDA=ON or OFF names in its version what it was built for.
set -u
cd "$(dirname "$0")/.."
cache=${NSVQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nsvq}

fail() { echo "wheel: $1" >&2; exit 1; }

torch=$(scripts/find_torch.sh) || exit 1
[ -n "$torch" ] || fail "no torch; run \`make setup\`, which installs one, or set NSVQ_TORCH"
venv=$cache/wheel-tools
if ! [ -e "$venv/complete" ]; then
  { python3 -m venv --clear "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check build scikit-build-core &&
    touch "$venv/complete"; } || fail "pip could not install build and scikit-build-core into $venv; check the network"
fi
NSVQ_TORCH=$torch NSVQ_WHEEL=1 "$venv/bin/python" -m build --wheel --no-isolation --skip-dependency-check --outdir build/wheels . ||
  fail "the build failed; what CMake or the compiler says stands above"
ls build/wheels/*.whl
