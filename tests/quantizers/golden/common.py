"""What the generators of golden values share: inputs by a formula that the C++ tests repeat, so the files hold
results alone, and one form of a case (tests/quantizers/golden.h reads it). They need torch, and those of vq, nsvq,
ema, fsq, lfq, simvq, affine and the rotation trick also vector-quantize-pytorch (1.32.0 made the files)."""

import json
import pathlib

import torch

torch.set_default_dtype(torch.float64)


def formula(shape, scale, phase):
    n = int(torch.tensor(shape).prod())
    return (scale * torch.sin(0.7 * torch.arange(n, dtype=torch.float64) ** 1.3 + phase)).reshape(shape)


def rows(z):
    """[B, d, h, w] to [N, d]."""
    return z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])


def places(flat, like):
    """[N, d] to [B, d, h, w]."""
    b, d, h, w = like.shape
    return flat.reshape(b, h, w, d).permute(0, 3, 1, 2)


def nearest(flat, codes):
    return ((flat.detach()[:, None, :] - codes.detach()[None]) ** 2).sum(-1).argmin(1)


def mse(a, b):
    return ((a - b) ** 2).mean()


def case(settings, shape, tensors, compute, scale=0.8, commitment=True, neighbours=True):
    """compute(z, tensors) gives loss, indices [N] and the decoder's input [B, d, h, w]; `tensors` is name: (shape,
    scale, phase) of the quantizer's parameters and buffers."""
    z = formula(shape, scale, 0.1).requires_grad_()
    made = {name: formula(*spec).requires_grad_() for name, spec in tensors.items()}
    loss, indices, out = compute(z, made)
    # The decoder's share reaches the encoder through the estimator.
    (loss + (out * formula(shape, 1.0, 2.9)).sum()).backward()
    return {
        "settings": settings, "shape": shape, "scale": scale, "commitment": commitment, "neighbours": neighbours,
        "tensors": {name: spec[1:] for name, spec in tensors.items()},
        "loss": loss.item(), "indices": indices.flatten().tolist(), "latents": out.flatten().tolist(),
        "latent_gradient": z.grad.flatten().tolist(),
        "gradients": {name: t.grad.flatten().tolist() for name, t in made.items() if t.grad is not None},
    }


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.15g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def write(generator, cases):
    path = pathlib.Path(generator).with_suffix(".json")
    path.write_text(json.dumps(rounded(cases)) + "\n")
