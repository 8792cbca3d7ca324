"""The U-Net of nsvq/nn as plain PyTorch modules, with the same parameter names: those of CompVis'
latent-diffusion (ldm/modules/diffusionmodules/openaimodel.py with plain attention blocks), whose
UNetModel loads the same weights.

`Unet(config, channels, labels)` takes the `unet` section of a recipe as a dict. Run as a script, it writes
unet.json beside itself: outputs and gradients of small models whose parameters follow from their names
(see `draw` in autoencoder.py).
"""

import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

DEFAULTS = {"width": 256, "multipliers": [1, 2, 4], "blocks": 2, "attention": [0, 1, 2], "heads": 4}


def group_norm(channels):
    groups = 32
    if channels % 32 != 0:
        groups = max(g for g in range(1, 33) if channels % g == 0 and (g == 1 or channels // g >= 4))
    return nn.GroupNorm(groups, channels, eps=1e-5)


def zeroed(layer):
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def time_embedding(times, width):
    frequencies = torch.exp(-math.log(10000) * torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angles = times.double()[:, None] * frequencies.to(times.device)
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=1)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, condition):
        super().__init__()
        self.in_layers = nn.Sequential(group_norm(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(condition, outputs))
        self.out_layers = nn.Sequential(group_norm(outputs), nn.SiLU(), nn.Dropout(0.0),
                                        zeroed(nn.Conv2d(outputs, outputs, 3, padding=1)))
        self.skip_connection = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, embedding):
        h = self.in_layers(x) + self.emb_layers(embedding)[:, :, None, None]
        return self.skip_connection(x) + self.out_layers(h)


class Attention(nn.Module):
    """Written out, without scaled_dot_product_attention, so that it checks the one in C++."""

    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm = group_norm(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = zeroed(nn.Conv1d(channels, channels, 1))

    def forward(self, x, embedding=None):
        b, c, h, w = x.shape
        qkv = self.qkv(self.norm(x).flatten(2)).reshape(b * self.heads, 3 * c // self.heads, h * w)
        q, k, v = qkv.chunk(3, dim=1)  # [B heads, C / heads, T]
        weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(c // self.heads), dim=2)
        mixed = (v @ weights.transpose(1, 2)).reshape(b, c, h * w)
        return x + self.proj_out(mixed).reshape(x.shape)


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x, embedding):
        return self.op(x)


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, embedding):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Stage(nn.Sequential):
    def forward(self, x, embedding):
        for layer in self:
            x = layer(x) if isinstance(layer, nn.Conv2d) else layer(x, embedding)
        return x


class Unet(nn.Module):
    def __init__(self, config=None, channels=128, labels=0):
        super().__init__()
        config = {**DEFAULTS, **(config or {})}
        self.width = width = config["width"]
        wide, heads = 4 * width, config["heads"]
        self.time_embed = nn.Sequential(nn.Linear(width, wide), nn.SiLU(), nn.Linear(wide, wide))
        if labels > 0:
            self.label_emb = nn.Embedding(labels, wide)

        def stage(inputs, outputs, level):
            layers = [ResBlock(inputs, outputs, wide)]
            return layers + [Attention(outputs, heads)] if level in config["attention"] else layers

        widths = [width * m for m in config["multipliers"]]
        self.input_blocks = nn.ModuleList([Stage(nn.Conv2d(channels, width, 3, padding=1))])
        skips, at = [width], width
        for level, outputs in enumerate(widths):
            for _ in range(config["blocks"]):
                self.input_blocks.append(Stage(*stage(at, outputs, level)))
                at = outputs
                skips.append(at)
            if level + 1 < len(widths):
                self.input_blocks.append(Stage(Downsample(at)))
                skips.append(at)
        self.middle_block = Stage(ResBlock(at, at, wide), Attention(at, heads), ResBlock(at, at, wide))
        self.output_blocks = nn.ModuleList()
        for level, outputs in reversed(list(enumerate(widths))):
            for block in range(config["blocks"] + 1):
                layers = stage(at + skips.pop(), outputs, level)
                at = outputs
                if level > 0 and block == config["blocks"]:
                    layers.append(Upsample(at))
                self.output_blocks.append(Stage(*layers))
        self.out = nn.Sequential(group_norm(at), nn.SiLU(), zeroed(nn.Conv2d(at, channels, 3, padding=1)))

    def forward(self, x, times, labels=None):
        embedding = self.time_embed(time_embedding(times, self.width).to(x.dtype))
        if labels is not None:
            embedding = embedding + self.label_emb(labels)
        skips = []
        for block in self.input_blocks:
            x = block(x, embedding)
            skips.append(x)
        x = self.middle_block(x, embedding)
        for block in self.output_blocks:
            x = block(torch.cat([x, skips.pop()], dim=1), embedding)
        return self.out(x)


# What follows makes the golden values.

CASES = {
    "paper_small": ({"width": 32}, 5, 0, [2, 5, 8, 4], [0, 999]),
    "classes": ({"width": 16, "multipliers": [1, 2], "blocks": 1, "attention": [1], "heads": 2}, 3, 4,
                [3, 3, 4, 6], [1, 500, 731]),
    "one_level": ({"width": 10, "multipliers": [2], "blocks": 2, "attention": [], "heads": 5}, 2, 0,
                  [1, 2, 3, 5], [42]),
}


def golden(config, channels, labels, shape, times):
    from autoencoder import draw_tensor, fill, summary
    model = Unet(config, channels, labels).double()
    fill(model, "unet.")
    x = draw_tensor("latents", shape).requires_grad_()
    chosen = torch.arange(shape[0]) * 2 % labels if labels else None
    output = model(x, torch.tensor(times), chosen)
    (output * draw_tensor("loss", output.shape)).sum().backward()
    gradients = {name: summary(p.grad, 3) for name, p in model.named_parameters()}
    return {"config": {**DEFAULTS, **config}, "channels": channels, "labels": labels, "latents": shape,
            "times": times, "chosen": chosen.tolist() if labels else [], "output": summary(output, 48),
            "input_gradient": summary(x.grad, 16), "gradients": gradients}


def main():
    path = pathlib.Path(__file__).with_suffix(".json")
    lines = [f"{json.dumps(name)}: {json.dumps(golden(*case))}" for name, case in CASES.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    with torch.device("meta"):
        for labels in (0, 1000, 1001):
            print(labels, "classes:", sum(p.numel() for p in Unet(labels=labels).parameters()))


if __name__ == "__main__":
    main()
