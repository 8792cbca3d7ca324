"""SimVQ of vector-quantize-pytorch with a biased linear map and without the rotation trick, and with the NS loss
added from its equation: writes simvq.json beside itself."""

import torch
from common import case, rows, write
from vector_quantize_pytorch import SimVQ


class Map(torch.nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, codes):
        return codes @ self.weight.T + self.bias


def quantize(rotation=False, alpha=0.0, tau=0.35):
    def compute(z, tensors):
        codes, d = tensors["codebook"].detach(), z.shape[1]
        member = SimVQ(d, len(codes), Map(tensors["projection.weight"], tensors["projection.bias"]),
                       channel_first=True, rotation_trick=rotation)
        member.frozen_codebook = codes
        out, q, loss = member(z)
        if not rotation:
            out = z + (out - z).detach()
        if alpha:
            flat = rows(z).detach()
            distances = ((flat[:, None] - member.codebook[None]) ** 2).sum(-1)
            p = torch.softmax(-distances / tau, 1).detach().scatter(1, q.reshape(-1, 1), 0)
            loss = loss + alpha * (p * distances).sum() / flat.numel()
        return loss, q, out
    return compute


tensors = {"codebook": ((9, 4), 0.6, 1.7), "projection.weight": ((4, 4), 0.9, 0.4), "projection.bias": ((4,), 0.3, 0.9)}
shape = (2, 4, 2, 3)
write(__file__, [
    case(["quantizer.type=simvq", "quantizer.codes=9"], shape, tensors, quantize()),
    case(["quantizer.type=simvq", "quantizer.codes=9", "quantizer.rotation=true"], shape, tensors, quantize(True)),
    case(["quantizer.type=simvq_ns", "quantizer.codes=9", "quantizer.alpha=0.1"], shape, tensors, quantize(alpha=0.1)),
    case(["quantizer.type=simvq_ns", "quantizer.codes=9"], shape, tensors, quantize(), neighbours=False),
])
