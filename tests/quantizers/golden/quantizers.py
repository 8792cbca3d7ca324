"""Losses and gradients of the quantizers in plain PyTorch, fp64: writes quantizers.json beside itself.

The inputs are a formula that the C++ test repeats, so the file holds results alone.
"""

import torch
from common import case, mse, nearest, places, rows, write

BETA, ALPHA, TAU = 0.25, 0.1, 0.35


def losses(z, codebook, commitment, neighbours):
    flat = rows(z)
    q = nearest(flat, codebook)
    codes = codebook[q]
    loss = mse(codes, flat.detach())
    if commitment:
        loss = loss + BETA * mse(flat, codes.detach())
    if neighbours:
        d = ((flat.detach()[:, None, :] - codebook[None]) ** 2).sum(-1)
        p = torch.softmax(-d / TAU, 1).detach()
        not_winner = torch.ones_like(p).scatter(1, q[:, None], 0)
        loss = loss + ALPHA * (p * d * not_winner).sum() / flat.numel()
    return loss, q, places(flat + (codes - flat).detach(), z)


cases = []
for name, shape, codes in [("vq", (2, 4, 3, 5), 7), ("nsvq", (2, 4, 3, 5), 7), ("nsvq", (1, 8, 1, 1), 1),
                           ("nsvq", (3, 6, 4, 2), 33)]:
    for terms in (True, False):
        cases.append(case(
            [f"quantizer.type={name}", f"quantizer.codes={codes}"], shape, {"codebook": ((codes, shape[1]), 0.6, 1.7)},
            lambda z, t: losses(z, t["codebook"], terms, terms and name == "nsvq"), commitment=terms, neighbours=terms))
write(__file__, cases)
