#!/usr/bin/env bash
# install.sh BUILD_FOLDER: installs what is built into a temporary folder, without building, and uses it there.
set -eu -o pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >"$prefix/log"
cd /
"$prefix/bin/nsvq" --version
"$prefix/bin/nsvq" config "$prefix/share/nsvq/configs/quickstart.yaml" >/dev/null
library=$(find "$prefix" -name libnsvq_ops.so)
[ -n "$library" ]
[ -s "$(dirname "$library")/nsvq_ops.py" ]
for file in "$prefix/bin/nsvq" "$library"; do
  if ldd "$file" | grep 'not found'; then echo "install: $file lacks a library" >&2; exit 1; fi
done

# The completions know commands, subcommands and options.
completions=$prefix/share/bash-completion/completions/nsvq
complete_words() {
  bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nsvq; echo " ${COMPREPLY[*]} "' "$completions" "$@"
}
expect() {  # WORD, then the line so far
  local word=$1
  shift
  complete_words "$@" | grep -q -- " $word " || { echo "install: '$*' is not completed by $word" >&2; exit 1; }
}
expect train nsvq tr
expect --resume nsvq train --re
expect step nsvq bench s
expect --phase nsvq bench step --ph
[ -s "$prefix/share/zsh/site-functions/_nsvq" ]
if command -v zsh >/dev/null; then zsh -n "$prefix/share/zsh/site-functions/_nsvq"; fi
