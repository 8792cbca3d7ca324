#!/usr/bin/env bash
# run.sh SCRIPT [ARGUMENT...]: runs a Python test with the packages that `scripts/setup.sh test`
# installs; without them the test counts as skipped (ctest: SKIP_RETURN_CODE 77).
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../../scripts/test_python.sh")

if ! [ -x "$python" ]; then
  echo "skipped: no $python; run \`make test\`, which installs it"
  [ -z "${NSVQ_REQUIRE_PYTHON:-}" ] || exit 1
  exit 77
fi
script=$1
shift
exec "$python" -B "$here/$script" "$@"
