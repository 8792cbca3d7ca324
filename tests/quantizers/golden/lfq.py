"""LFQ of vector-quantize-pytorch: writes lfq.json beside itself.

Ours takes the entropy of a sample as it is, and that of the batch with log(p + 1e-5), as Open-MAGVIT2 does; the package
takes log(max(p, 1e-5)) in both. With `own_log` its logarithm is replaced by ours; the case without has no entropy of
the batch and no p below 1e-5.
"""

import unittest.mock

import torch
from common import case, write
from vector_quantize_pytorch import LFQ, lookup_free_quantization


def log(p):
    batch = p.ndim == 2  # [1, codes]; those of samples are [N, 1, codes]
    return torch.log(p + 1e-5 if batch else p)


def quantize(temperature, entropy, diversity, commitment, own_log):
    def compute(z, _):
        member = LFQ(dim=z.shape[1], entropy_loss_weight=entropy, diversity_gamma=diversity,
                     commitment_loss_weight=0.25, force_quantization_f32=False).double()
        used = log if own_log else lookup_free_quantization.log
        with unittest.mock.patch.object(lookup_free_quantization, "log", used):
            # The package's first channel is the highest bit of an index, ours the lowest.
            out, q, loss = member(z.flip(1), inv_temperature=1 / temperature)
        return loss if commitment else 0 * loss, q, out.flip(1)
    return compute


def one(bits, temperature, entropy, diversity, commitment=True, own_log=True):
    return case(["quantizer.type=lfq", f"quantizer.lfq.bits={bits}", f"model.latent_dim={bits}",
                 f"quantizer.lfq.temperature={temperature}", f"quantizer.lfq.entropy={entropy}",
                 f"quantizer.lfq.diversity={diversity}"], (2, bits, 2, 3), {},
                quantize(temperature, entropy, diversity, commitment, own_log), scale=0.3, commitment=commitment)


write(__file__, [one(5, 0.01, 0.1, 1), one(5, 1.0, 0.1, 1), one(4, 0.5, 0.3, 2), one(1, 0.5, 0.1, 1),
                 one(3, 0.5, 0.1, 1, commitment=False), one(5, 1.0, 0.1, 0, own_log=False)])
