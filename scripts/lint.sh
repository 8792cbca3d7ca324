#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over nsvq/: lint.sh [FOLDER...], all folders if none is named. Half an hour on 2 cores.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v clang-tidy >/dev/null || { echo "lint: needs clang-tidy (Debian: clang-tidy)" >&2; exit 2; }
# Without precompiled headers, which are the compiler's own.
mkdir -p build
cmake --preset release -B build/lint -DNSVQ_CUDA=OFF -DNSVQ_TESTS=OFF -DNSVQ_BENCH=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  >build/lint-configure.log 2>&1 || { tail -n 5 build/lint-configure.log >&2; exit 1; }
pattern=$(IFS='|'; echo "nsvq_(${*:-[a-z]+})\.dir|nsvq/(${*:-[a-z]+})/")
sources=$(python3 -c '
import json, re, sys
print("\n".join(entry["file"] for entry in json.load(open("build/lint/compile_commands.json")) if re.search(sys.argv[1], entry["file"])))' "$pattern")
[ -n "$sources" ] || { echo "lint: no folder of nsvq/ has the name $*" >&2; exit 2; }
xargs -P "$(nproc)" -n 1 clang-tidy -p build/lint --quiet <<<"$sources" >build/lint.log 2>/dev/null
findings=$(grep -E '(warning|error): ' build/lint.log | sort -u)
if [ -n "$findings" ]; then
  echo "$findings" >&2
  echo "lint: $(wc -l <<<"$findings") findings (build/lint.log)" >&2
  exit 1
fi
echo "lint: clang-tidy finds nothing in $(wc -l <<<"$sources") files of sources"
