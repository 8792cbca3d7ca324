"""The package in fresh environments: install, import, use, uninstall. Needs a compiler and pip's index.

torch is the one that the tests run with, put on an environment's path by a .pth file; with NSVQ_TEST_TORCH=VERSION,... the
environments install those from the index too.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import venv

import pytest

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.slow

# What an installation is tried by: exact against cdist in fp64, a gradient, clusters, tracing.
TRIAL = """
import pathlib, sys
import nsvq
assert "torch" not in sys.modules
import torch
from nsvq import _library
assert str(pathlib.Path(_library.PATH).parent) in nsvq.__path__, _library.PATH
x, codes = torch.randn(300, 16), torch.randn(2000, 16).requires_grad_()
exact = torch.cdist(x.double(), codes.double()).topk(3, largest=False).indices
assert torch.equal(nsvq.nearest(x, codes, k=3).indices, exact)
assert torch.equal(nsvq.nearest(x, codes).indices, exact[:, 0])
compiled = torch.compile(lambda: nsvq.ns_loss(x, codes), backend="aot_eager", fullgraph=True)
compiled().backward()
assert codes.grad.norm() > 0 and nsvq.kmeans(x, 7).counts.sum() == 300
assert "nearest_codes(latents, codebook)" in torch.ops.nsvq.nearest_codes.__doc__
print(nsvq.__file__)
"""


class Environment:
    """A virtual environment and what is done in it. The tests' own settings for nsvq do not reach it."""

    def __init__(self, folder, torch=None):
        self.folder, self.python = folder, folder / "bin" / "python"
        venv.create(folder, with_pip=True)
        self.site = next(folder.glob("lib/python3*/site-packages"))
        hidden = ("PYTHONPATH", "NSVQ_OPS_LIBRARY", "NSVQ_TORCH", "NSVQ_CUDA", "VIRTUAL_ENV")
        self.variables = {name: value for name, value in os.environ.items() if name not in hidden}
        self.variables |= {"NSVQ_CUDA": "OFF", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.variables.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
        if torch:
            self.pip("install", "-q", f"torch=={torch}.*", "numpy")
        else:
            import torch as present
            (self.site / "torch.pth").write_text(str(pathlib.Path(present.__file__).parents[1]) + "\n")

    def run(self, *words, **variables):
        return subprocess.run([str(word) for word in words], cwd=self.folder, capture_output=True, text=True,
                              env={**self.variables, **variables})

    def pip(self, *words, **variables):
        done = self.run(self.python, "-m", "pip", *words, **variables)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def try_it(self):
        done = self.run(self.python, "-c", TRIAL)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(done.stdout.strip())

    def files(self):
        return {path for path in self.site.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The tracked files, and those that git does not ignore, as a folder of their own: a build leaves nothing in the tree."""
    folder = tmp_path_factory.mktemp("source")
    parts = ["pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "python", "nsvq/ops", "nsvq/core",
             "nsvq/tokenizer/pytorch_model.py", "cmake/torch.cmake", "scripts/find_torch.sh"]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *parts], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.splitlines()
    for name in listed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def torches():
    return [None, *filter(None, os.environ.get("NSVQ_TEST_TORCH", "").split(","))]


@pytest.fixture(scope="module", params=torches(), ids=lambda torch: f"torch {torch}" if torch else "the tests' torch")
def environment(request, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("environment"), request.param)


def test_install_use_and_uninstall(environment, source):
    before = environment.files()
    environment.pip("install", source)  # with build isolation: the environment's torch all the same
    assert environment.try_it().is_relative_to(environment.site)
    environment.pip("install", "pytest")
    done = environment.run(environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml",
                           ROOT / "tests/package/test_functional.py", "-k", "not no_matrix")
    assert done.returncode == 0, done.stdout[-4000:]
    environment.pip("uninstall", "-y", "pytest", "iniconfig", "packaging", "pluggy", "pygments")
    environment.pip("uninstall", "-y", "nsvq")
    assert environment.files() == before, environment.files() ^ before


def test_editable(environment, source):
    environment.pip("install", "scikit-build-core", "cmake", "ninja")
    environment.pip("install", "--no-build-isolation", "-e", source)
    used = environment.try_it()
    assert used == source / "python/nsvq/__init__.py"
    used.write_text(used.read_text() + "\nEDITED = True\n")
    assert environment.run(environment.python, "-c", "import nsvq; print(nsvq.EDITED)").stdout == "True\n"
    environment.pip("uninstall", "-y", "nsvq")
    assert environment.run(environment.python, "-c", "import nsvq", PYTHONSAFEPATH="1").returncode != 0


def test_wheel_has_what_it_should(environment, source, tmp_path):
    environment.pip("wheel", "-q", "--no-deps", "-w", tmp_path, source, NSVQ_WHEEL="1")
    wheel, = tmp_path.glob("*.whl")
    assert "-py3-none-linux_" in wheel.name and "+torch" in wheel.name and wheel.name.split("-")[1].endswith(".cpu"), wheel.name
    import zipfile
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"nsvq/libnsvq_ops.so", "nsvq/_built.py", "nsvq/py.typed", "nsvq/nsvq_ops.py", "nsvq/pytorch_model.py"} <= names
    assert not any(name.endswith((".cpp", ".h", ".pyc")) for name in names), names


def output_of_failure(environment, source, *words, **variables):
    done = environment.run(environment.python, "-m", "pip", "install", *words, source, **variables)
    assert done.returncode != 0
    return [line.strip() for line in (done.stdout + done.stderr).splitlines()]


def test_no_compiler(environment, source, tmp_path):
    """CMake finds none: a line says what to install. (It looks into /usr/bin whatever PATH is, but CXX goes first.)"""
    lines = output_of_failure(environment, source, "-C", f"build-dir={tmp_path}", CXX="/nowhere/c++")
    assert any("nsvq: no C++ compiler; install one for C++20 (`apt-get install g++`" in line for line in lines), lines[-30:]


def test_no_torch(source, tmp_path):
    empty = Environment(tmp_path / "empty")
    (empty.site / "torch.pth").unlink()
    lines = output_of_failure(empty, source)
    assert any(line.startswith("nsvq: no torch for ") and "pip install torch" in line for line in lines), lines[-30:]


def test_a_torch_that_is_too_old(source, tmp_path):
    old = tmp_path / "old" / "torch"
    old.mkdir(parents=True)
    (old / "version.py").write_text("__version__ = '2.8.0+cpu'\n")
    done = subprocess.run([sys.executable, source / "python/torch_of_environment.py"], capture_output=True, text=True,
                          env={**os.environ, "NSVQ_TORCH": str(old)})
    assert done.stderr.strip() == f"nsvq: {old} is torch 2.8; nsvq needs 2.9 or newer"
