"""The quantizer of VAR's tokenizer from its equations: writes var.json beside itself.

Tokens of a scale are of what the scales before it leave: its mean over the scale's grid (area), the nearest code, enlarged
(bicubic) and smoothed by one of four phi, half the identity and half a convolution of 3x3. Needs torch and numpy.
"""

import numpy
import torch
from common import formula, nearest, rows, write
from torch.nn import functional as F

TICKS = numpy.linspace(1 / 3 / 4, 1 - 1 / 3 / 4, 4)


def quantize(z, codes, phi, scales):
    rest, total, tokens = z.clone(), torch.zeros_like(z), []
    for i, side in enumerate(scales):
        last = i == len(scales) - 1
        small = rest if last else F.interpolate(rest, size=(side, side), mode="area")
        q = nearest(rows(small), codes).view(len(z), side, side)
        h = codes[q].permute(0, 3, 1, 2)
        if not last:
            h = F.interpolate(h, size=z.shape[2:], mode="bicubic")
        weight, bias = phi[numpy.argmin(numpy.abs(TICKS - i / (len(scales) - 1))).item()]
        h = h * 0.5 + F.conv2d(h, weight, bias, padding=1) * 0.5
        total, rest = total + h, rest - h
        tokens.append(q.flatten(1))
    return torch.cat(tokens, 1), total


def case(scales, codes, dim):
    shape = [2, dim, scales[-1], scales[-1]]
    tensors = {"codebook": ((codes, dim), 0.7, 1.7)}
    for i in range(4):
        tensors[f"phi.{i}.weight"] = ((dim, dim, 3, 3), 0.2, 0.3 + i)
        tensors[f"phi.{i}.bias"] = ((dim,), 0.1, 2.3 + i)
    made = {name: formula(*spec) for name, spec in tensors.items()}
    phi = [(made[f"phi.{i}.weight"], made[f"phi.{i}.bias"]) for i in range(4)]
    tokens, latents = quantize(formula(shape, 0.8, 0.1), made["codebook"], phi, scales)
    return {"settings": ["quantizer.type=var", f"quantizer.codes={codes}", f"quantizer.var.scales={scales}"],
            "shape": shape, "scale": 0.8, "tensors": {name: spec[1:] for name, spec in tensors.items()},
            "indices": tokens.flatten().tolist(), "latents": latents.flatten().tolist()}


write(__file__, [case([1, 2, 3], 7, 4), case([1, 3, 5, 7], 33, 3), case([1, 2, 3, 4, 5, 6, 8, 10, 13, 16], 19, 2)])
