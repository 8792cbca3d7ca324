"""Golden values of the networks in nsvq/nn, and the deterministic parameters that several golden scripts share.

`Autoencoder(config)` is that of nsvq/tokenizer/pytorch_model.py, where absent keys of a recipe's `model` section take the
defaults. Run as a script, it writes autoencoder.json beside itself: outputs and gradients of small models whose parameters
follow from their names (see `draw`).
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "nsvq" / "tokenizer"))
import pytorch_model

DEFAULTS = {
    "width": 128,
    "multipliers": [1, 2, 2, 4],
    "blocks": 2,
    "latent_dim": 128,
    "attention": [],
    "mid_attention": False,
}


class Autoencoder(pytorch_model.Autoencoder):
    """Absent keys take the defaults."""

    def __init__(self, config=None):
        super().__init__({**DEFAULTS, **(config or {})})


CASES = {
    "plain": ({"width": 32, "multipliers": [1, 2], "blocks": 1, "latent_dim": 5}, [2, 3, 8, 8]),
    "narrow_odd": ({"width": 24, "multipliers": [1, 3, 2], "blocks": 2, "latent_dim": 7},
                   [1, 3, 12, 20]),
    "attention": ({"width": 34, "multipliers": [1, 2, 2], "blocks": 2, "latent_dim": 4,
                   "attention": [1, 2], "mid_attention": True}, [2, 3, 8, 12]),
    "one_level": ({"width": 10, "multipliers": [2], "blocks": 1, "latent_dim": 1,
                   "mid_attention": True}, [1, 3, 5, 3]),
}


def draw(name, count):
    """`count` numbers in [-1, 1): SplitMix64 seeded with the FNV-1a hash of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return 2.0 * ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53) - 1.0


def draw_tensor(name, shape):
    """Rounded to fp32, so that an fp32 model starts from the same values."""
    values = torch.from_numpy(draw(name, math.prod(shape))).float().double()
    return values.reshape(list(shape))


def fill(module, prefix):
    """Weights of unit gain, norm weights about 1, biases about 0."""
    for name, parameter in module.named_parameters():
        values = draw(prefix + name, parameter.numel())
        if parameter.dim() > 1:
            values = values * math.sqrt(3.0 / parameter[0].numel())
        else:
            values = values * 0.25 + (1.0 if name.endswith("weight") else 0.0)
        parameter.data = torch.from_numpy(values).float().double().reshape(parameter.shape)


def samples(tensor, count):
    flat = tensor.detach().reshape(-1)
    count = min(count, flat.numel())
    return [float(f"{flat[i * flat.numel() // count].item():.10g}") for i in range(count)]


def summary(tensor, count):
    return {"norm": float(f"{tensor.detach().norm().item():.12g}"), "samples": samples(tensor, count)}


def golden(module, prefix, inputs):
    fill(module, prefix)
    inputs.requires_grad_()
    output = module(inputs)
    (output * draw_tensor("loss", output.shape)).sum().backward()
    gradients = {name: summary(p.grad, 3) for name, p in module.named_parameters()}
    return {"shape": list(output.shape), "output": summary(output, 48),
            "input_gradient": summary(inputs.grad, 16), "gradients": gradients}


def main():
    cases = {}
    for name, (config, shape) in CASES.items():
        config = {**DEFAULTS, **config}
        model = Autoencoder(config).double()
        encoder = golden(model.encoder, "encoder.", draw_tensor("images", shape))
        decoder = golden(model.decoder, "decoder.", draw_tensor("latents", encoder["shape"]))
        cases[name] = {"config": config, "images": shape, "encoder": encoder, "decoder": decoder}
    path = pathlib.Path(__file__).with_suffix(".json")
    lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for name in ("encoder", "decoder"):
        print(name, sum(p.numel() for p in getattr(Autoencoder(), name).parameters()))


if __name__ == "__main__":
    main()
