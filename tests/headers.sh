#!/usr/bin/env bash
# headers.sh BUILD: compiles each header of nsvq/ by itself with the flags and the precompiled header of a build folder.
# Headers of CUDA code are left out: they need nvcc.
set -u
build=$1
cd "$(dirname "$0")/.." || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=$(python3 - "$build/compile_commands.json" <<'PY'
import json, shlex, sys
commands = [e["command"] for e in json.load(open(sys.argv[1])) if "nsvq_cli.dir" in e["command"]]
words = shlex.split(commands[0])
words = words[next(i for i, w in enumerate(words) if w.startswith("-")):] if "ccache" not in words[0] else words
first = next(i for i, w in enumerate(words) if w.startswith(("-D", "-I")))
kept = [w for i, w in enumerate(words) if i >= first and w not in ("-c", "-o") and words[i - 1] not in ("-c", "-o")]
print(shlex.join(kept))
PY
)
export flags folder
compile() {
  echo "#include \"$1\"" >"$folder/$$.cpp"
  message=$(eval "c++ $flags -fsyntax-only $folder/$$.cpp" 2>&1) || { echo "$1 does not compile by itself:"; head -n 5 <<<"$message"; exit 1; }
}
export -f compile
find nsvq -name '*.h' | xargs grep -L '<cuda' | sort | xargs -P "$(nproc)" -I {} bash -c 'compile {}'
