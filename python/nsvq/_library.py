"""Finds libnsvq_ops.so and loads it: the operators `torch.ops.nsvq.*`.

The library lies in the package, or where the environment variable NSVQ_OPS_LIBRARY says (a build by `make` leaves it in
build/release/). Importing this module loads it; importing it twice costs nothing.
"""

import os
import pathlib
import sys

import torch


def _find():
    """The library, and whether it is the package's own."""
    given = os.environ.get("NSVQ_OPS_LIBRARY")
    if given:
        if not os.path.isfile(given):
            raise ImportError(f"nsvq: NSVQ_OPS_LIBRARY={given} is no file; point it at libnsvq_ops.so or unset it")
        return given, False
    for folder in sys.modules["nsvq"].__path__:  # an editable installation has two
        if (pathlib.Path(folder) / "libnsvq_ops.so").is_file():
            return os.path.join(folder, "libnsvq_ops.so"), True
    raise ImportError("nsvq: libnsvq_ops.so is missing; install the package by `pip install .`, "
                      "or set NSVQ_OPS_LIBRARY to a library built by `make build`")


def _other_torch(built, reason=""):
    return ImportError(f"nsvq: libnsvq_ops.so was built for {built}, but this is torch {torch.__version__}{reason}; install "
                       "nsvq again by `pip install --force-reinstall --no-deps --no-cache-dir .`")


def _load():
    path, packaged = _find()
    built = "another torch"
    if packaged:
        from nsvq._built import TORCH  # written by python/CMakeLists.txt
        built = f"torch {TORCH}"
        if TORCH != ".".join(torch.__version__.split(".")[:2]):
            raise _other_torch(built)
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise _other_torch(built, f" ({error})") from None
    from nsvq import nsvq_ops
    nsvq_ops.document()
    return path


PATH = _load()
"""Where the library lies."""

HAS_CUDA_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("nsvq::nearest_codes", "CUDA")
"""Whether the library was built with CUDA kernels. Without them nsvq.blocked serves tensors on a GPU."""

if not HAS_CUDA_KERNELS:
    from nsvq import blocked
    blocked.register("CUDA")
