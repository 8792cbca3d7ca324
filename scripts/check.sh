#!/usr/bin/env bash
# Formatting and the order of folders: check.sh, or check.sh --fix to format in place.
set -u
cd "$(dirname "$0")/.." || exit 1
clang_format=$(dirname "$(scripts/test_python.sh)")/clang-format
failed=0

mapfile -d '' -t sources < <(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
[ ${#sources[@]} -gt 0 ] || { echo "check: git lists no sources here; run it in a clone of your own" >&2; exit 1; }
[ -x "$clang_format" ] || { echo "check: no clang-format; run \`make test\` once, which installs it" >&2; exit 1; }
if [ "${1:-}" = --fix ]; then
  "$clang_format" -i "${sources[@]}" || exit 1
elif ! complaints=$("$clang_format" --dry-run --Werror "${sources[@]}" 2>&1); then
  failed=1
  echo "check: not formatted (make format puts it right):" >&2
  grep -oE '^[^:]+:[0-9]+' <<<"$complaints" | head -n 20 >&2
fi

scripts/check_folders.py || failed=1
[ $failed = 0 ] && echo "check: formatting and folders are in order"
exit $failed
