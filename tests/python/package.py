"""The tests of the Python package by pytest: package.py [OPTION...]; run.sh gives its folder, tests/CMakeLists.txt the environment."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).parents[1] / "package"

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--durations", "10", "--rootdir", str(TESTS.parents[1]),
                      "-c", str(TESTS.parents[1] / "pyproject.toml"), str(TESTS), *sys.argv[1:]]))
