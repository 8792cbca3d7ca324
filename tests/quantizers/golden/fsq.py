"""FSQ of vector-quantize-pytorch: writes fsq.json beside itself."""

import torch
from common import case, write
from vector_quantize_pytorch import FSQ


def quantize(levels):
    member = FSQ(levels).double()

    def compute(z, _):
        out, q = member(z)
        return torch.zeros(()), q, out
    return compute


write(__file__, [
    case(["quantizer.type=fsq", f"quantizer.fsq.levels={levels}", f"model.latent_dim={len(levels)}"],
         (2, len(levels), 2, 3), {}, quantize(levels), scale=3.0)
    for levels in ([8, 5, 4, 3], [7], [8, 8, 8, 5, 5, 5])
])
