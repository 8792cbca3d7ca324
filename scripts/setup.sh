#!/usr/bin/env bash
# Installs what is missing for the build (`setup.sh build`), also for the tests (`setup.sh test`), for fuzzing
# (`setup.sh fuzz`) or for `make check` (`setup.sh lint`).
# Nothing is asked of apt or pip when everything is there, so it also works offline.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${NSVQ_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or NSVQ_CACHE}/.cache}/nsvq}
goal=${1:-build}
torch_version=2.11.0

fail() { echo "setup: $1" >&2; exit 1; }

has_header() { printf '#include <%s>\n' "$1" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }
has_jpeg() { printf '#include <cstdio>\n#include <jpeglib.h>\n' | c++ -E -x c++ - >/dev/null 2>&1; }

# One row a Debian package: how to see that it is there, and its name.
missing_packages() {
  command -v c++ >/dev/null || echo build-essential
  command -v make >/dev/null || echo make
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v git >/dev/null || echo git
  command -v python3 >/dev/null || echo python3
  python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  has_header yaml-cpp/yaml.h || echo libyaml-cpp-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header fmt/format.h || echo libfmt-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_jpeg || echo libjpeg-dev
  has_header png.h || echo libpng-dev
  has_header webp/decode.h || echo libwebp-dev
  has_header zlib.h || echo zlib1g-dev
  has_header zstd.h || echo libzstd-dev
  has_header openssl/evp.h || echo libssl-dev
  has_header zip.h || echo libzip-dev
  has_header gloo/context.h || echo libgloo-dev
  has_header httplib.h || echo libcpp-httplib-dev
  has_header gtest/gtest.h || echo libgtest-dev
  [ "$goal" != test ] || command -v ccache >/dev/null || echo ccache
  [ "$goal" != lint ] || command -v clang-tidy >/dev/null || echo clang-tidy
  [ "$goal" = fuzz ] || return 0
  command -v clang++ >/dev/null || echo clang
  has_libfuzzer || echo "libclang-rt-$(clang_version)-dev"
  command -v llvm-cov >/dev/null || echo llvm
}

clang_version() { { clang++ -dumpversion || apt-cache show clang | sed -n 's/^Version: 1:\([0-9]*\).*/\1/p' | head -n 1; } 2>/dev/null | cut -d. -f1; }
has_libfuzzer() { [ -n "$(find "$(clang++ -print-resource-dir 2>/dev/null)" -name 'libclang_rt.fuzzer-*.a' 2>/dev/null)" ]; }

install_packages() {
  local packages sudo=
  packages=$(missing_packages | sort -u | tr '\n' ' ')
  [ -n "$packages" ] || return 0
  echo "setup: installing Debian packages: $packages"
  command -v apt-get >/dev/null || fail "missing: $packages(no apt-get here: install their equivalents, then run again)"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "missing packages; as root run: apt-get install $packages"
    sudo=sudo
  fi
  local log
  log=$(mktemp)
  { $sudo env DEBIAN_FRONTEND=noninteractive apt-get update &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $packages; } >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; fail "apt-get could not install: $packages(log: $log); check the network or wait for another apt to end, then run again"; }
  rm -f "$log"
  packages=$(missing_packages | sort -u | tr '\n' ' ')
  [ -z "$packages" ] || fail "still missing after installation: $packages"
}

# pip_install VENV ADVICE PACKAGE...: a virtual environment under the cache. The stamp comes last, so that
# one whose installation was interrupted counts as missing.
pip_install() {
  local venv=$1 advice=$2 log; shift 2
  log=$(mktemp)
  mkdir -p "$(dirname "$venv")" || fail "cannot create $(dirname "$venv"); set NSVQ_CACHE to a folder you may write to"
  { python3 -m venv --clear "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check "$@" &&
    touch "$venv/complete"; } >"$log" 2>&1 ||
    { tail -n 3 "$log" >&2; fail "pip could not install $* (log: $log); $advice"; }
  rm -f "$log"
}

install_torch() {
  local found
  found=$("$here/find_torch.sh") || exit 1
  if [ -z "$found" ]; then
    echo "setup: installing torch $torch_version into $cache (about 4.6 GB, a minute or two)"
    pip_install "$cache/torch-$torch_version" "check the network and 6 GB of free disk, or set NSVQ_TORCH" \
      "torch==$torch_version" numpy
    found=$("$here/find_torch.sh") || exit 1
    [ -n "$found" ] || fail "torch $torch_version was installed but holds no LibTorch; remove $cache and run again"
  fi
  echo "setup: LibTorch in $found"
}

# The tests' Python: packages that read our files back, beside the torch that we build with.
install_test_tools() {
  local venv=$cache/test-tools found
  if ! cmp -s "$here/test-requirements.txt" "$venv/complete"; then
    echo "setup: installing the tests' Python packages into $venv"
    pip_install "$venv" "check the network and the free disk" -r "$here/test-requirements.txt"
    cp "$here/test-requirements.txt" "$venv/complete"
  fi
  found=$("$here/find_torch.sh")
  # A .pth line puts the folder that holds torch/ on this environment's path, where Python versions agree.
  for site in "$venv"/lib/python3*/site-packages; do dirname "$found" >"$site/nsvq-torch.pth"; done
}

install_packages
install_torch
case "$goal" in
  build | fuzz) ;;
  test | lint) install_test_tools ;;
  *) fail "unknown goal '$goal'; use build, test, fuzz or lint" ;;
esac
