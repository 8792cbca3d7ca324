"""Losses and gradients of vq by vector-quantize-pytorch, and of nsvq, the NS loss added from its equation, fp64: writes
quantizers.json beside itself.

The inputs are a formula that the C++ test repeats, so the file holds results alone.
"""

import torch
from common import case, rows, write
from vector_quantize import layer, quantize

BETA, ALPHA, TAU = 0.25, 0.1, 0.35


def losses(z, codebook, commitment, neighbours):
    loss, q, out = quantize(layer(codebook, commitment_weight=BETA), z, commitment=commitment)
    if neighbours:
        flat = rows(z).detach()
        d = ((flat[:, None, :] - codebook[None]) ** 2).sum(-1)
        p = torch.softmax(-d / TAU, 1).detach().scatter(1, q.reshape(-1, 1), 0)
        loss = loss + ALPHA * (p * d).sum() / flat.numel()
    return loss, q, out


cases = []
for name, shape, codes in [("vq", (2, 4, 3, 5), 7), ("nsvq", (2, 4, 3, 5), 7), ("nsvq", (1, 8, 1, 1), 1),
                           ("nsvq", (3, 6, 4, 2), 33)]:
    for terms in (True, False):
        cases.append(case(
            [f"quantizer.type={name}", f"quantizer.codes={codes}"], shape, {"codebook": ((codes, shape[1]), 0.6, 1.7)},
            lambda z, t: losses(z, t["codebook"], terms, terms and name == "nsvq"), commitment=terms, neighbours=terms))
write(__file__, cases)
