"""Losses and gradients of the quantizers in plain PyTorch, fp64: writes quantizers.json beside itself.

The inputs are a formula that the C++ test repeats, so the file holds results alone.
"""

import json
import pathlib

import torch


def formula(shape, scale, phase):
    n = int(torch.tensor(shape).prod())
    return (scale * torch.sin(0.7 * torch.arange(n, dtype=torch.float64) ** 1.3 + phase)).reshape(shape)


def losses(z, codebook, beta, alpha, tau, commitment, neighbours):
    """z [B, d, h, w]; returns loss, indices and the decoder's input."""
    flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
    d = ((flat.detach()[:, None, :] - codebook[None]) ** 2).sum(-1)
    q = d.argmin(1)
    codes = codebook[q]
    loss = ((codes - flat.detach()) ** 2).mean()
    if commitment:
        loss = loss + beta * ((flat - codes.detach()) ** 2).mean()
    if neighbours:
        p = torch.softmax(-d / tau, 1).detach()
        not_winner = torch.ones_like(p).scatter(1, q[:, None], 0)
        loss = loss + alpha * (p * d * not_winner).sum() / flat.numel()
    straight = flat + (codes - flat).detach()
    return loss, q, straight.reshape(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)


cases = []
for name, shape, codes in [("vq", (2, 4, 3, 5), 7), ("nsvq", (2, 4, 3, 5), 7), ("nsvq", (1, 8, 1, 1), 1),
                           ("nsvq", (3, 6, 4, 2), 33)]:
    for commitment, neighbours in [(True, True), (False, False)]:
        z = formula(shape, 0.8, 0.1).requires_grad_()
        codebook = formula((codes, shape[1]), 0.6, 1.7).requires_grad_()
        weight = formula(shape, 1.0, 2.9)
        loss, q, out = losses(z, codebook, 0.25, 0.1, 0.35, commitment, neighbours and name == "nsvq")
        # The decoder's share reaches the encoder through the straight-through estimator.
        grads = torch.autograd.grad(loss + (out * weight).sum(), [z, codebook])
        cases.append({
            "type": name, "shape": shape, "codes": codes, "commitment": commitment, "neighbours": neighbours,
            "loss": loss.item(), "indices": q.tolist(),
            "latent_gradient": grads[0].flatten().tolist(), "codebook_gradient": grads[1].flatten().tolist(),
        })

path = pathlib.Path(__file__).with_name("quantizers.json")
path.write_text(json.dumps(cases) + "\n")
