#!/usr/bin/env bash
# What NSVQ_CUDA scripts/build.sh gives to cmake, in a copy of the scripts with a cmake and a ninja that only note their words.
set -u -o pipefail
scripts=$(cd "$(dirname "$0")/../scripts" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/scripts" "$folder/bin"
cp "$scripts"/{build,choose_cuda,build_progress}.sh "$folder/scripts"
cd "$folder" || exit 1
cat >bin/cmake <<'CMAKE'
#!/usr/bin/env bash
[ "$1" = --preset ] || exit 0  # --build
mkdir -p "build/$2"
for word; do case $word in -DNSVQ_CUDA=*) echo "NSVQ_CUDA:STRING=${word#*=}" >"build/$2/CMakeCache.txt" ;; esac; done
CMAKE
printf '#!/bin/sh\n' >bin/ninja
printf '#!/bin/sh\nexit 1\n' >bin/nvidia-smi
chmod +x bin/*
export PATH="$folder/bin:$PATH"
unset NSVQ_CUDA
failed=0

# expect CHOICE LINE [NAME=VALUE] PRESET: what cmake gets, and a part of what is printed ("": nothing is).
expect() {
  local choice=$1 line=$2 printed got
  shift 2
  printed=$(env "${@:1:$#-1}" scripts/build.sh "${@: -1}" nsvq 2>&1) || { echo "build_scripts: '$*' failed: $printed" >&2; failed=1; }
  got=$(sed -n 's/^NSVQ_CUDA:STRING=//p' "build/${*: -1}/CMakeCache.txt")
  [ "$got" = "$choice" ] || { echo "build_scripts: '$*' gives NSVQ_CUDA=$got, not $choice" >&2; failed=1; }
  case $printed in
    "") [ -z "$line" ] ;;
    *$'\n'*) false ;;
    *) [ -n "$line" ] && [[ $printed = *"$line"* ]] ;;
  esac || { echo "build_scripts: '$*' prints '$printed', not one line with '$line'" >&2; failed=1; }
}

if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then  # a machine without a GPU
  expect OFF 'so without CUDA' release
  expect OFF '' release
  expect ON '' NSVQ_CUDA=ON release
  expect ON 'build/release keeps NSVQ_CUDA=ON; a new folder would get OFF, because no NVIDIA GPU is seen (NSVQ_CUDA=OFF' release
  expect AUTO '' NSVQ_CUDA=AUTO release
  expect AUTO 'keeps NSVQ_CUDA=AUTO' release
  expect OFF '' NSVQ_CUDA=OFF release
  expect OFF 'so without CUDA' debug
fi
expect OFF '' asan
expect ON '' cuda

printf '#!/bin/sh\n' >bin/nvidia-smi  # one with a GPU
expect AUTO '' NSVQ_CUDA=AUTO release
expect AUTO '' release
expect ON '' NSVQ_CUDA=ON release
expect ON '' release
expect OFF '' NSVQ_CUDA=OFF release
expect OFF 'keeps NSVQ_CUDA=OFF; a new folder would get AUTO, because an NVIDIA GPU is seen (NSVQ_CUDA=AUTO' release
expect OFF '' asan
expect ON '' cuda
rm -r build
expect AUTO '' release
exit $failed
