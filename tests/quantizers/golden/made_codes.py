"""Losses and gradients of quantizers whose codes a network makes (fvq, vqgan_lc), in plain PyTorch, fp64: writes
made_codes.json beside itself.

Inputs and parameters are a formula that the C++ test repeats. The file holds the norm of each parameter's
gradient and its product with another formula.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from common import formula


def positions(side, width):
    """For each patch, row by row: sines and cosines of its column, then of its row."""
    waves = [10000.0 ** (-4 * i / width) for i in range(width // 4)]
    along = lambda at: [math.sin(at * w) for w in waves] + [math.cos(at * w) for w in waves]
    return torch.tensor([along(c) + along(r) for r in range(side) for c in range(side)], dtype=torch.float64)


def bridge(p, codebook, patch, heads, blocks, variant):
    """The codebook as an image, through a convolution by patches and transformer blocks, to an image again."""
    k, d = codebook.shape
    side = math.isqrt(k)
    n = side // patch
    image = codebook.T.reshape(1, d, side, side)
    kernel = p["bridge.embed.weight"].reshape(-1, patch, patch, d).permute(0, 3, 1, 2)
    x = F.conv2d(image, kernel, p["bridge.embed.bias"], stride=patch).flatten(2).transpose(1, 2)  # [1, T, width]
    norm = lambda y, shift=0, scale=0: F.layer_norm(y, y.shape[-1:], eps=1e-6) * (1 + scale) + shift
    # Shift, scale and gate of attention and MLP in each block; shift and scale behind them.
    modulation = [(0, 0, 1, 0, 0, 1)] * blocks + [(0, 0)]
    if variant == "dit":
        x = x + positions(n, x.shape[-1])
        made = lambda i: F.linear(F.silu(p["bridge.condition"]), p[f"bridge.modulation.{i}.weight"],
                                  p[f"bridge.modulation.{i}.bias"])
        modulation = [made(i).chunk(6 if i < blocks else 2) for i in range(blocks + 1)]
    for i in range(blocks):
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = modulation[i]
        linear = lambda y, name: F.linear(y, p[f"bridge.blocks.{i}.{name}.weight"], p[f"bridge.blocks.{i}.{name}.bias"])
        q, key, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2)
                     for part in linear(norm(x, shift, scale), "qkv").chunk(3, -1))
        x = x + gate * linear(F.scaled_dot_product_attention(q, key, v).transpose(1, 2).flatten(2), "proj")
        x = x + mlp_gate * linear(F.gelu(linear(norm(x, mlp_shift, mlp_scale), "fc1"), approximate="tanh"), "fc2")
    x = F.linear(norm(x, *modulation[blocks]), p["bridge.last.weight"], p["bridge.last.bias"]).reshape(1, n, n, patch, patch, d)
    return torch.einsum("nhwpqc->nchpwq", x).reshape(d, k).T


def quantize(z, codes, embedding_weight, commitment_weight):
    flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
    q = ((flat.detach()[:, None] - codes.detach()[None]) ** 2).sum(-1).argmin(1)
    chosen = codes[q]
    loss = embedding_weight * ((chosen - flat.detach()) ** 2).mean()
    loss = loss + commitment_weight * ((flat - chosen.detach()) ** 2).mean()
    return loss, q


def case(name, shape, config, shapes, make_codes, weights):
    z = formula(shape, 0.8, 0.1).requires_grad_()
    p = {key: formula(size, 0.5, 1.1 * i).requires_grad_(key != "features") for i, (key, size) in enumerate(shapes.items())}
    loss, q = quantize(z, make_codes(p), *weights)
    trained = [key for key in p if p[key].requires_grad]
    gradients = torch.autograd.grad(loss, [z] + [p[key] for key in trained])
    return {
        "type": name, "shape": shape, "config": config, "tensors": list(shapes), "loss": loss.item(), "indices": q.tolist(),
        "latent_gradient": gradients[0].flatten().tolist(),
        "gradients": {key: [g.norm().item(), (g * formula(g.shape, 1.0, 5.5)).sum().item()]
                      for key, g in zip(trained, gradients[1:])},
    }


def fvq(variant, k, patch, width, heads, blocks):
    d = 4
    shapes = {"embedding": (k, d), "bridge.embed.weight": (width, patch * patch * d), "bridge.embed.bias": (width,)}
    for i in range(blocks):
        for name, out, into in (("qkv", 3 * width, width), ("proj", width, width), ("fc1", 2 * width, width),
                                ("fc2", width, 2 * width)):
            shapes[f"bridge.blocks.{i}.{name}.weight"] = (out, into)
            shapes[f"bridge.blocks.{i}.{name}.bias"] = (out,)
    shapes["bridge.last.weight"] = (patch * patch * d, width)
    shapes["bridge.last.bias"] = (patch * patch * d,)
    if variant == "dit":
        shapes["bridge.condition"] = (width,)
        for i in range(blocks + 1):
            rows = (6 if i < blocks else 2) * width
            shapes[f"bridge.modulation.{i}.weight"] = (rows, width)
            shapes[f"bridge.modulation.{i}.bias"] = (rows,)
    config = {"codes": k, "patch": patch, "width": width, "heads": heads, "blocks": blocks, "variant": variant}
    return case("fvq", (2, d, 3, 5), config, shapes, lambda p: bridge(p, p["embedding"], patch, heads, blocks, variant),
                (1.0, 0.25))


def vqgan_lc():
    shapes = {"features": (7, 5), "projection.weight": (4, 5), "projection.bias": (4,)}
    return case("vqgan_lc", (2, 4, 3, 5), {"codes": 7, "features": 5}, shapes,
                lambda p: F.linear(p["features"], p["projection.weight"], p["projection.bias"]), (0.33, 1.0))


path = pathlib.Path(__file__).with_name("made_codes.json")
path.write_text(json.dumps([fvq("vit", 16, 2, 6, 3, 2), fvq("dit", 36, 2, 8, 2, 2), vqgan_lc()]) + "\n")
