"""The encoder and decoder of nsvq/nn as plain PyTorch modules, with the same parameter names.

`Autoencoder(config)` takes the `model` section of a recipe as a dict; a checkpoint of nsvq loads into
it with `load_state_dict`. Run as a script, it writes autoencoder.json beside itself: outputs and
gradients of small models whose parameters follow from their names (see `draw`).
"""

import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DEFAULTS = {
    "width": 128,
    "multipliers": [1, 2, 2, 4],
    "blocks": 2,
    "latent_dim": 128,
    "attention": [],
    "mid_attention": False,
}


def group_norm(channels):
    groups = 32
    if channels % 32 != 0:
        groups = max(g for g in range(1, 33) if channels % g == 0 and (g == 1 or channels // g >= 4))
    return nn.GroupNorm(groups, channels, eps=1e-6)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1 = group_norm(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm2 = group_norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        if inputs != outputs:
            self.nin_shortcut = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class Attention(nn.Module):
    """Written out, without scaled_dot_product_attention, so that it checks the one in C++."""

    def __init__(self, channels):
        super().__init__()
        self.norm = group_norm(channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (conv(h).flatten(2) for conv in (self.q, self.k, self.v))  # [B, C, HW]
        weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(x.shape[1]), dim=2)
        return x + self.proj_out((v @ weights.transpose(1, 2)).reshape(x.shape))


def depth_to_space(x):
    """[B, 4C, H, W] to [B, C, 2H, 2W]; channel (dy * 2 + dx) * C + c goes to offset (dy, dx)."""
    b, c, h, w = x.shape
    x = x.reshape(b, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // 4, 2 * h, 2 * w)


class Level(nn.Module):
    def __init__(self, inputs, outputs, blocks, attention):
        super().__init__()
        self.block = nn.ModuleList(
            ResBlock(outputs if i else inputs, outputs) for i in range(blocks))
        self.attn = nn.ModuleList(Attention(outputs) for _ in range(blocks if attention else 0))

    def forward(self, x):
        for i, block in enumerate(self.block):
            x = block(x)
            if len(self.attn):
                x = self.attn[i](x)
        return x


class Mid(nn.Module):
    def __init__(self, channels, attention):
        super().__init__()
        self.block_1 = ResBlock(channels, channels)
        self.attn_1 = Attention(channels) if attention else nn.Identity()
        self.block_2 = ResBlock(channels, channels)

    def forward(self, x):
        return self.block_2(self.attn_1(self.block_1(x)))


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        widths = [config["width"] * m for m in config["multipliers"]]
        self.conv_in = nn.Conv2d(3, config["width"], 3, padding=1, bias=False)
        self.down = nn.ModuleList()
        for i, width in enumerate(widths):
            inputs = widths[i - 1] if i else config["width"]
            level = Level(inputs, width, config["blocks"], i in config["attention"])
            if i + 1 < len(widths):
                level.downsample = nn.Conv2d(width, width, 3, stride=2, padding=1)
            self.down.append(level)
        self.mid = Mid(widths[-1], config["mid_attention"])
        self.norm_out = group_norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], config["latent_dim"], 1)

    def forward(self, x):
        x = self.conv_in(x)
        for level in self.down:
            x = level(x)
            if hasattr(level, "downsample"):
                x = level.downsample(x)
        return self.conv_out(F.silu(self.norm_out(self.mid(x))))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        widths = [config["width"] * m for m in config["multipliers"]]
        self.conv_in = nn.Conv2d(config["latent_dim"], widths[-1], 3, padding=1)
        self.mid = Mid(widths[-1], config["mid_attention"])
        self.up = nn.ModuleList()  # up[0] is full resolution, so it is applied last
        for i, width in enumerate(widths):
            inputs = widths[min(i + 1, len(widths) - 1)]
            level = Level(inputs, width, config["blocks"], i in config["attention"])
            if i > 0:
                level.upsample = nn.Conv2d(width, 4 * width, 3, padding=1)
            self.up.append(level)
        self.norm_out = group_norm(widths[0])
        self.conv_out = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x):
        x = self.mid(self.conv_in(x))
        for level in reversed(self.up):
            x = level(x)
            if hasattr(level, "upsample"):
                x = depth_to_space(level.upsample(x))
        return self.conv_out(F.silu(self.norm_out(x)))


class Autoencoder(nn.Module):
    """`.encoder` and `.decoder` for the `model` section of a recipe; absent keys take the defaults."""

    def __init__(self, config=None):
        super().__init__()
        config = {**DEFAULTS, **(config or {})}
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


# What follows makes the golden values.

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
