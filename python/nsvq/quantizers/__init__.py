"""Quantizers as modules: exact, without the N x K matrix (docs/python.md, "Modules")."""

from nsvq.quantizers._usage import Usage
from nsvq.quantizers.fsq import FSQ
from nsvq.quantizers.ibq import IBQ
from nsvq.quantizers.lfq import LFQ
from nsvq.quantizers.nsvq import NSVQ
from nsvq.quantizers.random_projection import RandomProjectionQuantizer
from nsvq.quantizers.residual import GroupedResidualVQ, ResidualSimVQ, ResidualVQ
from nsvq.quantizers.simvq import SimVQ
from nsvq.quantizers.vector_quantize import EMA, VectorQuantize

__all__ = ["EMA", "FSQ", "GroupedResidualVQ", "IBQ", "LFQ", "NSVQ", "RandomProjectionQuantizer", "ResidualSimVQ", "ResidualVQ",
           "SimVQ", "Usage", "VectorQuantize"]
