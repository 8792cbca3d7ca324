#!/usr/bin/env bash
# Prints the Python that has the tests' packages (scripts/setup.sh test).
echo "${NSVQ_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or NSVQ_CACHE}/.cache}/nsvq}/test-tools/bin/python"
