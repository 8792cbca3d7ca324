"""Importing the package, and finding the library."""

import os
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "python"


def run(code, **environment):
    given = {**os.environ, "PYTHONPATH": str(PACKAGE), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={name: value for name, value in given.items() if value is not None})


def last_line(done):
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


def test_importing_loads_no_torch():
    done = run("import sys, nsvq; print('torch' in sys.modules, 'numpy' in sys.modules, 'nearest' in dir(nsvq))")
    assert done.stdout.split() == ["False", "False", "True"], done.stderr


def test_a_name_that_is_not_there():
    assert last_line(run("import nsvq; nsvq.nothing")) == "AttributeError: module 'nsvq' has no attribute 'nothing'"
    assert run("import sys, nsvq; hasattr(nsvq, 'nothing'); print('torch' in sys.modules)").stdout == "False\n"


def test_every_name_is_there():
    """Those of the table are in their modules, and nsvq.quantizers offers no other."""
    done = run("import nsvq; [getattr(nsvq, name) for name in nsvq.__all__]; "
               "print(set(nsvq.quantizers.__all__) == set(nsvq._EXPORTS['quantizers']))")
    assert done.stdout == "True\n", done.stderr


def test_no_library():
    line = last_line(run("import nsvq; nsvq.nearest", NSVQ_OPS_LIBRARY="/nowhere/libnsvq_ops.so"))
    assert line == ("ImportError: nsvq: NSVQ_OPS_LIBRARY=/nowhere/libnsvq_ops.so is no file; "
                    "point it at libnsvq_ops.so or unset it")
    line = last_line(run("import nsvq; nsvq.nearest", NSVQ_OPS_LIBRARY=None))
    assert line.startswith("ImportError: nsvq: libnsvq_ops.so is missing; install the package by")


def test_a_library_that_does_not_load(tmp_path):
    broken = tmp_path / "libnsvq_ops.so"
    broken.write_bytes(b"not ELF")
    line = last_line(run("import nsvq; nsvq.nearest", NSVQ_OPS_LIBRARY=str(broken)))
    assert "was built for another torch, but this is torch " in line and "install nsvq again" in line, line


def test_a_package_built_for_another_torch(tmp_path):
    """An installed package keeps beside its library the torch that it was built for."""
    folder = tmp_path / "nsvq"
    folder.mkdir()
    for file in (PACKAGE / "nsvq").glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    (folder / "libnsvq_ops.so").symlink_to(os.environ["NSVQ_OPS_LIBRARY"])
    (folder / "_built.py").write_text('TORCH = "2.1"\n')
    line = last_line(run("import nsvq; nsvq.nearest", NSVQ_OPS_LIBRARY=None, PYTHONPATH=str(tmp_path)))
    assert line.startswith("ImportError: nsvq: libnsvq_ops.so was built for torch 2.1, but this is torch "), line
    import torch
    (folder / "_built.py").write_text(f'TORCH = "{".".join(torch.__version__.split(".")[:2])}"\n')
    done = run("import nsvq; print(nsvq.nearest.__module__)", NSVQ_OPS_LIBRARY=None, PYTHONPATH=str(tmp_path))
    assert done.stdout.strip() == "nsvq.functional", done.stderr


@pytest.mark.parametrize("name", ["nearest", "ns_loss", "kmeans"])
def test_functions_say_what_they_take(name):
    import nsvq
    assert getattr(nsvq, name).__doc__ and getattr(nsvq, name).__annotations__
