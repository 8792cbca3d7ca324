"""Exact vector quantization without the N x K matrix, image tokenizers and their tokens (docs/python.md).

    import nsvq
    indices, distances = nsvq.nearest(x, codes)              # exact, to 2^24 codes
    quantizer = nsvq.VectorQuantize(dim=256, codebook_size=65536)
    tokenizer = nsvq.Tokenizer.from_pretrained("runs/photos")

Importing this loads neither torch nor the operators: a name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

# What each module offers here.
_EXPORTS = {
    "functional": ("nearest", "ns_loss", "kmeans", "Nearest", "Clusters"),
    "quantizers": ("VectorQuantize", "NSVQ", "SimVQ", "EMA", "FSQ", "LFQ", "IBQ", "RandomProjectionQuantizer", "ResidualVQ",
                   "ResidualSimVQ", "GroupedResidualVQ", "Usage"),
    "tokenizer": ("Tokenizer",),
    "tokens": ("TokenDataset",),
    "generator": ("Generator",),
    "program": ("train", "read_run"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

if TYPE_CHECKING:  # for type checkers and editors
    from nsvq.functional import Clusters, Nearest, kmeans, nearest, ns_loss
    from nsvq.generator import Generator
    from nsvq.program import read_run, train
    from nsvq.quantizers import (EMA, FSQ, IBQ, LFQ, NSVQ, GroupedResidualVQ, RandomProjectionQuantizer, ResidualSimVQ,
                                 ResidualVQ, SimVQ, Usage, VectorQuantize)
    from nsvq.tokenizer import Tokenizer
    from nsvq.tokens import TokenDataset

__all__ = sorted(_MODULE_OF)


def __getattr__(name):
    if name in _EXPORTS:
        return importlib.import_module(f"nsvq.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'nsvq' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(f"nsvq.{_MODULE_OF[name]}"), name)
    return value  # found without this function next time


def __dir__():
    return sorted({*globals(), *__all__, *_EXPORTS})
