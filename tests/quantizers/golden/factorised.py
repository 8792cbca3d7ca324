"""VQGAN-FC from its equations: writes factorised.json beside itself."""

import torch.nn.functional as F
from common import case, mse, nearest, places, rows, write


def quantize(commitment):
    def compute(z, tensors):
        flat, codebook = F.normalize(rows(z), dim=1), F.normalize(tensors["codebook"], dim=1)
        q = nearest(flat, codebook)
        codes = codebook[q]
        loss = mse(codes, flat.detach())
        if commitment:
            loss = loss + 0.25 * mse(flat, codes.detach())
        return loss, q, places(flat + (codes - flat).detach(), z)
    return compute


write(__file__, [
    case(["quantizer.type=factorised", "quantizer.codes=7"], (2, 4, 2, 3), {"codebook": ((7, 4), 0.6, 1.7)},
         quantize(commitment), commitment=commitment)
    for commitment in (True, False)
])
