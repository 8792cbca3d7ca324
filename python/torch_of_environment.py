"""The torch that the package is built against: the one of the environment that it is installed into.

`python torch_of_environment.py` prints its folder for python/CMakeLists.txt; pyproject.toml takes the package's version and
the requirement of torch from `dynamic_metadata`.
"""

import os
import pathlib
import re
import subprocess
import sys

OLDEST = (2, 9)
FIND = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"

_state = "wheel"


class NoTorch(Exception):
    pass


def folder():
    """Where torch lies: $NSVQ_TORCH, or what Python finds. pip hides installed packages from a build by PYTHON* variables,
    which `-E` ignores."""
    given = os.environ.get("NSVQ_TORCH")
    if given:
        folders = pathlib.Path(given), pathlib.Path(given) / "torch"
        found = next((one for one in folders if (one / "version.py").exists()), None)
        if not found:
            raise NoTorch(f"NSVQ_TORCH={given} holds no torch; point it at the folder of the torch package or unset it")
        return found
    for options in ([], ["-E"]):
        origin = subprocess.run([sys.executable, *options, "-c", FIND], capture_output=True, text=True).stdout.strip()
        if origin:
            return pathlib.Path(origin).parent
    raise NoTorch(f"no torch for {sys.executable}; run `pip install torch`, then install nsvq again "
                  "(tools that build in an environment of their own, as uv does, need --no-build-isolation)")


def version(torch):
    """(2, 11), and the major version of CUDA that torch was built with, or ''."""
    text = (torch / "version.py").read_text()
    numbers = re.search(r"__version__ = '(\d+)\.(\d+)", text)
    minor = int(numbers[1]), int(numbers[2])
    if minor < OLDEST:
        raise NoTorch(f"{torch} is torch {minor[0]}.{minor[1]}; nsvq needs {OLDEST[0]}.{OLDEST[1]} or newer")
    cuda = re.search(r"\ncuda: [^=]*= '(\d+)", text)
    return minor, cuda[1] if cuda else ""


def build_state(state):
    global _state
    _state = state


def dynamic_metadata(settings, project):
    """The package's version, and the torch that its library is built for. Both stand in the version of a wheel that is made
    to be handed on (scripts/wheel.sh sets NSVQ_WHEEL)."""
    cmake = (pathlib.Path(__file__).parents[1] / "CMakeLists.txt").read_text()
    number = re.search(r"project\(nsvq VERSION ([\d.]+)", cmake)[1]
    if _state == "sdist":
        return {"version": number, "dependencies": [f"torch>={OLDEST[0]}.{OLDEST[1]}", "numpy"]}
    try:
        (major, minor), cuda = version(folder())
    except NoTorch as error:
        sys.exit(f"nsvq: {error}")
    if os.environ.get("NSVQ_WHEEL"):
        kernels = {"ON": f".cu{cuda}", "OFF": ".cpu"}.get(os.environ.get("NSVQ_CUDA", "AUTO"), "")
        number += f"+torch{major}.{minor}{kernels}"
    return {"version": number, "dependencies": [f"torch=={major}.{minor}.*", "numpy"]}


def dynamic_wheel(settings):
    return {"dependencies": True}


if __name__ == "__main__":
    try:
        found = folder()
        version(found)
        print(found)
    except NoTorch as error:
        sys.exit(f"nsvq: {error}")
