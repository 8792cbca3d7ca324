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

# A folder includes only itself and folders above it in nsvq/README.md.
folders=$(sed -n 's/^- `\([a-z]*\)\/`.*/\1/p' nsvq/README.md)
allowed=" "
for folder in $folders; do
  allowed="$allowed$folder "
  while IFS=: read -r file _ line; do
    used=$(sed -E 's|.*"nsvq/([a-z]+)/.*|\1|' <<<"$line")
    case "$allowed" in
      *" $used "*) ;;
      *) echo "check: $file includes nsvq/$used, which stands below $folder in nsvq/README.md" >&2; failed=1 ;;
    esac
  done < <(grep -rnE '#include "nsvq/[a-z]+/' "nsvq/$folder")
done
for folder in nsvq/*/; do
  case "$allowed" in
    *" $(basename "$folder") "*) ;;
    *) echo "check: $folder is not in nsvq/README.md" >&2; failed=1 ;;
  esac
done
[ $failed = 0 ] && echo "check: formatting and folders are in order"
exit $failed
