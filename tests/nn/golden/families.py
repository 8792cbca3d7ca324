"""Golden values of the networks of other programs (model.family), each written out here as its program has it.

The modules below have the names and the order of operations of taming-transformers (and LlamaGen, IBQ, VAR), of MaskGIT's
VQGAN in TiTok's repository, of Open-MAGVIT2, and of Cosmos; `named_parameters` gives nsvq's names. Run as a script, it writes
families.json beside itself, in the form of autoencoder.json.
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

from autoencoder import DEFAULTS, draw_tensor, golden


def norm(channels):
    return nn.GroupNorm(32, channels, eps=1e-6)


def swish(x):
    return x * torch.sigmoid(x)


def children(module, **named):
    for name, child in named.items():
        module.add_module(name, child)
    return module


class Named(nn.Module):
    """A network whose parameters have nsvq's names."""

    names = {}

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            for theirs, ours in self.names.items():
                name = name.replace(theirs, ours)
            yield name, parameter


# taming-transformers

class TamingBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = norm(inputs), norm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 1, 1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.nin_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        h = self.conv2(swish(self.norm2(self.conv1(swish(self.norm1(x))))))
        return self.nin_shortcut(x) + h


class TamingAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = norm(channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = (conv(y).reshape(b, c, h * w) for conv in (self.q, self.k, self.v))
        weights = torch.einsum("bci,bcj->bij", q, k).mul(c**-0.5).softmax(2)
        return x + self.proj_out(torch.einsum("bij,bcj->bci", weights, v).reshape(b, c, h, w))


def taming_level(inputs, outputs, blocks, attention):
    sizes = [inputs] + [outputs] * blocks
    return children(nn.Module(), block=nn.ModuleList(map(TamingBlock, sizes, sizes[1:])),
                    attn=nn.ModuleList(TamingAttention(outputs) for _ in range(blocks if attention else 0)))


def through_taming(level, x):
    for i, block in enumerate(level.block):
        x = block(x)
        if len(level.attn) > 0:
            x = level.attn[i](x)
    return x


def taming_mid(channels, attention):
    parts = {"block_1": TamingBlock(channels, channels), "block_2": TamingBlock(channels, channels)}
    return children(nn.Module(), **parts, **({"attn_1": TamingAttention(channels)} if attention else {}))


def through_mid(mid, x):
    x = mid.block_1(x)
    return mid.block_2(mid.attn_1(x) if hasattr(mid, "attn_1") else x)


class TamingEncoder(Named):
    names = {"downsample.conv.": "downsample."}

    def __init__(self, c):
        super().__init__()
        widths, z = [c["width"] * m for m in c["multipliers"]], c["z_channels"] or c["latent_dim"]
        self.conv_in = nn.Conv2d(3, c["width"], 3, 1, 1)
        self.down = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip([c["width"]] + widths, widths)):
            self.down.append(taming_level(inputs, outputs, c["blocks"], i in c["attention"]))
            if i + 1 < len(widths):
                children(self.down[-1], downsample=children(nn.Module(), conv=nn.Conv2d(outputs, outputs, 3, 2, 0)))
        self.mid = taming_mid(widths[-1], c["mid_attention"])
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], z, 3, 1, 1)
        self.quant_conv = nn.Conv2d(z, c["latent_dim"], c["latent_kernel"], 1, c["latent_kernel"] // 2)

    def forward(self, x):
        x = self.conv_in(x)
        for level in self.down:
            x = through_taming(level, x)
            if hasattr(level, "downsample"):
                x = level.downsample.conv(F.pad(x, (0, 1, 0, 1)))
        return self.quant_conv(self.conv_out(swish(self.norm_out(through_mid(self.mid, x)))))


class TamingDecoder(Named):
    names = {"upsample.conv.": "upsample."}

    def __init__(self, c):
        super().__init__()
        widths, z = [c["width"] * m for m in c["multipliers"]], c["z_channels"] or c["latent_dim"]
        self.post_quant_conv = nn.Conv2d(c["latent_dim"], z, c["latent_kernel"], 1, c["latent_kernel"] // 2)
        self.conv_in = nn.Conv2d(z, widths[-1], 3, 1, 1)
        self.mid = taming_mid(widths[-1], c["mid_attention"])
        self.up = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[1:] + widths[-1:], widths)):
            self.up.append(taming_level(inputs, outputs, c["blocks"] + 1, i in c["attention"]))
            if i > 0:
                children(self.up[-1], upsample=children(nn.Module(), conv=nn.Conv2d(outputs, outputs, 3, 1, 1)))
        self.norm_out = norm(widths[0])
        self.conv_out = nn.Conv2d(widths[0], 3, 3, 1, 1)

    def forward(self, z):
        x = through_mid(self.mid, self.conv_in(self.post_quant_conv(z)))
        for level in reversed(self.up):
            x = through_taming(level, x)
            if hasattr(level, "upsample"):
                x = level.upsample.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.conv_out(swish(self.norm_out(x)))


# Cosmos: taming's networks on wavelets, with levels that do not halve the resolution.

def haar_kernels(channels):
    """[4C, 1, 2, 2]: all low of each channel, then high along y, along x, along both."""
    low, high = torch.tensor([0.5, 0.5]), torch.tensor([0.5, -0.5])
    kernels = torch.stack([torch.outer(along_y, along_x) for along_x in (low, high) for along_y in (low, high)])
    return kernels.repeat_interleave(channels, 0)[:, None]


class Patcher(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times
        self.register_buffer("wavelets", torch.full([2], 0.5**0.5), persistent=False)

    def forward(self, x):
        for _ in range(self.times):
            kernels, channels = haar_kernels(x.shape[1]).to(x), x.shape[1]
            # A group's outputs are those of its input: four of each channel, then in order of the kernels.
            parts = F.conv2d(x, kernels.view(4, channels, 1, 2, 2).transpose(0, 1).flatten(0, 1), stride=2, groups=channels)
            x = parts.unflatten(1, (channels, 4)).transpose(1, 2).flatten(1, 2)
        return x


class Unpatcher(Patcher):
    def forward(self, x):
        for _ in range(self.times):
            channels = x.shape[1] // 4
            kernels = haar_kernels(channels).to(x).view(4, channels, 1, 2, 2).transpose(0, 1).flatten(0, 1)
            x = x.unflatten(1, (4, channels)).transpose(1, 2).flatten(1, 2)
            x = F.conv_transpose2d(x, 4 * kernels, stride=2, groups=channels)
        return x


class CosmosEncoder(TamingEncoder):
    def __init__(self, c):
        super().__init__(c)
        self.conv_in = nn.Conv2d(3 * 4 ** c["haar"], c["width"], 3, 1, 1)
        self.patcher = Patcher(c["haar"])
        for level in self.down[c["halvings"]:]:
            if hasattr(level, "downsample"):
                del level.downsample

    def forward(self, x):
        return super().forward(self.patcher(x))


class CosmosDecoder(TamingDecoder):
    def __init__(self, c):
        super().__init__(c)
        self.conv_out = nn.Conv2d(c["width"] * c["multipliers"][0], 3 * 4 ** c["haar"], 3, 1, 1)
        self.unpatcher = Unpatcher(c["haar"])
        for level in self.up[:len(self.up) - c["halvings"]]:
            if hasattr(level, "upsample"):
                del level.upsample

    def forward(self, z):
        return self.unpatcher(super().forward(z))


# MaskGIT's VQGAN

class MaskgitBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = norm(inputs), norm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        if inputs != outputs:
            self.nin_shortcut = nn.Conv2d(outputs, outputs, 1, bias=False)

    def forward(self, x):
        y = self.conv2(swish(self.norm2(self.conv1(swish(self.norm1(x))))))
        return y + (self.nin_shortcut(y) if hasattr(self, "nin_shortcut") else x)


def maskgit_level(inputs, outputs, blocks):
    sizes = [inputs] + [outputs] * blocks
    return children(nn.Module(), block=nn.Sequential(*map(MaskgitBlock, sizes, sizes[1:])))


def maskgit_mid(c, channels):
    return nn.Sequential(*(MaskgitBlock(channels, channels) for _ in range(c["blocks"])))


class MaskgitEncoder(Named):
    names = {f"mid.{i}.": f"mid.block_{i + 1}." for i in range(4)}

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(3, c["width"], 3, 1, 1, bias=False)
        self.down = nn.ModuleList(maskgit_level(inputs, outputs, c["blocks"])
                                  for inputs, outputs in zip([c["width"]] + widths, widths))
        self.mid = maskgit_mid(c, widths[-1])
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], c["latent_dim"], 1)

    def forward(self, x):
        x = self.conv_in(x)
        for i, level in enumerate(self.down):
            x = level.block(x)
            if i + 1 < len(self.down):
                x = F.avg_pool2d(x, kernel_size=2, stride=2)
        return self.conv_out(swish(self.norm_out(self.mid(x))))


class MaskgitDecoder(Named):
    names = {**MaskgitEncoder.names, "upsample_conv.": "upsample."}

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(c["latent_dim"], widths[-1], 3, 1, 1)
        self.mid = maskgit_mid(c, widths[-1])
        self.up = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[1:] + widths[-1:], widths)):
            self.up.append(maskgit_level(inputs, outputs, c["blocks"]))
            if i > 0:
                children(self.up[-1], upsample_conv=nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.norm_out = norm(widths[0])
        self.conv_out = nn.Conv2d(widths[0], 3, 3, 1, 1)

    def forward(self, z):
        x = self.mid(self.conv_in(z))
        for level in reversed(self.up):
            x = level.block(x)
            if hasattr(level, "upsample_conv"):
                x = level.upsample_conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.conv_out(swish(self.norm_out(x)))


# VQGAN+ and MaskBit: a decoder's level 0 has the lowest resolution.

def maskbit_stage(inputs, outputs, blocks):
    sizes = [inputs] + [outputs] * blocks
    return children(nn.Module(), res_blocks=nn.ModuleList(map(MaskgitBlock, sizes, sizes[1:])))


def through_stage(stage, x):
    for block in stage.res_blocks:
        x = block(x)
    return x


class MaskbitEncoder(Named):
    names = {**{f"mid.res_blocks.{i}.": f"mid.block_{i + 1}." for i in range(4)}, "res_blocks.": "block.", "down_conv.": "downsample.",
             "upsample_conv.": "upsample."}

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(3, c["width"], 3, 1, 1, bias=False)
        self.down = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip([c["width"]] + widths, widths)):
            self.down.append(maskbit_stage(inputs, outputs, c["blocks"]))
            if i + 1 < len(widths):
                children(self.down[-1], down_conv=nn.Conv2d(outputs, outputs, 3, 2, 0))
        self.mid = maskbit_stage(widths[-1], widths[-1], c["blocks"])
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], c["latent_dim"], 1)

    def forward(self, x):
        x = self.conv_in(x)
        for stage in self.down:
            x = through_stage(stage, x)
            if hasattr(stage, "down_conv"):
                x = stage.down_conv(F.pad(x, (0, 1, 0, 1)))  # "same" for even sizes
        return self.conv_out(swish(self.norm_out(through_stage(self.mid, x))))


class MaskbitDecoder(Named):
    names = MaskbitEncoder.names

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in reversed(c["multipliers"])]
        self.conv_in = nn.Conv2d(c["latent_dim"], widths[0], 3, 1, 1)
        self.mid = maskbit_stage(widths[0], widths[0], c["blocks"])
        self.up = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[:1] + widths, widths)):
            self.up.append(maskbit_stage(inputs, outputs, c["blocks"]))
            if i + 1 < len(widths):
                children(self.up[-1], upsample_conv=nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], 3, 3, 1, 1)

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            first, level, *rest = name.split(".")
            if first == "up":
                name = ".".join([first, str(len(self.up) - 1 - int(level)), *rest])
            yield name, parameter

    def forward(self, z):
        x = through_stage(self.mid, self.conv_in(z))
        for stage in self.up:
            x = through_stage(stage, x)
            if hasattr(stage, "upsample_conv"):
                x = stage.upsample_conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.conv_out(swish(self.norm_out(x)))


# Open-MAGVIT2

class MagvitBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = norm(inputs), norm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.nin_shortcut = nn.Conv2d(inputs, outputs, 1, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = self.conv2(swish(self.norm2(self.conv1(swish(self.norm1(x))))))
        return y + self.nin_shortcut(x)


class MagvitAdaptiveNorm(nn.Module):
    def __init__(self, latent_dim, channels):
        super().__init__()
        self.gn = nn.GroupNorm(32, channels, eps=1e-6, affine=False)
        self.gamma, self.beta = nn.Linear(latent_dim, channels), nn.Linear(latent_dim, channels)

    def forward(self, x, z):
        z = z.flatten(2)
        scale, bias = self.gamma(torch.sqrt(z.var(dim=-1) + 1e-6)), self.beta(z.mean(dim=-1))
        return scale[..., None, None] * self.gn(x) + bias[..., None, None]


def magvit_level(inputs, outputs, blocks):
    sizes = [inputs] + [outputs] * blocks
    return children(nn.Module(), block=nn.Sequential(*map(MagvitBlock, sizes, sizes[1:])))


def magvit_mid(c, channels):
    return nn.Sequential(*(MagvitBlock(channels, channels) for _ in range(c["blocks"])))


class MagvitEncoder(Named):
    names = {f"mid_block.{i}.": f"mid.block_{i + 1}." for i in range(4)}

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(3, c["width"], 3, 1, 1, bias=False)
        self.down = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip([c["width"]] + widths, widths)):
            self.down.append(magvit_level(inputs, outputs, c["blocks"]))
            if i + 1 < len(widths):
                children(self.down[-1], downsample=nn.Conv2d(outputs, outputs, 3, 2, 1))
        self.mid_block = magvit_mid(c, widths[-1])
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], c["latent_dim"], 1)

    def forward(self, x):
        x = self.conv_in(x)
        for level in self.down:
            x = level.block(x)
            if hasattr(level, "downsample"):
                x = level.downsample(x)
        return self.conv_out(swish(self.norm_out(self.mid_block(x))))


class MagvitDecoder(Named):
    names = {**MagvitEncoder.names, "upsample.conv1.": "upsample."}

    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(c["latent_dim"], widths[-1], 3, 1, 1)
        self.mid_block = magvit_mid(c, widths[-1])
        self.up, self.adaptive = nn.ModuleList(), nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[1:] + widths[-1:], widths)):
            self.adaptive.append(MagvitAdaptiveNorm(c["latent_dim"], inputs))
            self.up.append(magvit_level(inputs, outputs, c["blocks"]))
            if i > 0:
                children(self.up[-1], upsample=children(nn.Module(), conv1=nn.Conv2d(outputs, 4 * outputs, 3, 1, 1)))
        self.norm_out = norm(widths[0])
        self.conv_out = nn.Conv2d(widths[0], 3, 3, 1, 1)

    def forward(self, z):
        x = self.mid_block(self.conv_in(z))
        for level, adaptive in zip(reversed(self.up), reversed(self.adaptive)):
            x = level.block(adaptive(x, z))
            if hasattr(level, "upsample"):
                x = level.upsample.conv1(x)
                # Depth, column, row: channel (dy * 2 + dx) * C + c goes to (dy, dx).
                rows = [torch.stack(pair, -1).flatten(-2) for pair in (x.chunk(4, 1)[:2], x.chunk(4, 1)[2:])]
                x = torch.stack(rows, -2).flatten(-3, -2)
        return self.conv_out(swish(self.norm_out(x)))


ORIGINALS = {"taming": (TamingEncoder, TamingDecoder), "maskgit": (MaskgitEncoder, MaskgitDecoder),
             "maskbit": (MaskbitEncoder, MaskbitDecoder), "magvit2": (MagvitEncoder, MagvitDecoder)}
SMALL = {**DEFAULTS, "width": 32, "multipliers": [1, 2], "blocks": 1, "z_channels": 0, "latent_kernel": 1}
CASES = {
    "taming": ({"family": "taming", "width": 64, "multipliers": [1, 2, 2], "blocks": 2, "latent_dim": 5,
                "z_channels": 12, "attention": [2], "mid_attention": True}, [2, 3, 16, 16]),
    "taming_var": ({"family": "taming", "latent_dim": 6, "latent_kernel": 3, "mid_attention": True}, [1, 3, 6, 10]),
    "taming_one_latent": ({"family": "taming", "multipliers": [2, 4, 4], "latent_dim": 4}, [2, 3, 4, 4]),
    "cosmos": ({"family": "taming", "multipliers": [1, 2, 2], "blocks": 1, "latent_dim": 6, "z_channels": 12,
                "mid_attention": True, "halvings": 1, "haar": 2}, [1, 3, 16, 24]),
    "cosmos_all_halve": ({"family": "taming", "latent_dim": 6, "halvings": 1, "haar": 1}, [2, 3, 8, 12]),
    "maskgit": ({"family": "maskgit", "multipliers": [1, 2, 4], "blocks": 2, "latent_dim": 6}, [2, 3, 16, 16]),
    "maskgit_odd": ({"family": "maskgit", "latent_dim": 3}, [1, 3, 6, 10]),
    "maskbit": ({"family": "maskbit", "multipliers": [1, 2, 4], "blocks": 2, "latent_dim": 6}, [2, 3, 16, 16]),
    "magvit2": ({"family": "magvit2", "multipliers": [1, 2, 2], "blocks": 3, "latent_dim": 6}, [2, 3, 16, 16]),
    "magvit2_odd": ({"family": "magvit2", "multipliers": [1, 3], "latent_dim": 7}, [1, 3, 6, 10]),
}


def original(config):
    """The encoder and the decoder of a family, for the `model` section of a recipe."""
    parts = (CosmosEncoder, CosmosDecoder) if config.get("haar") else ORIGINALS[config["family"]]
    return tuple(part(config) for part in parts)


def golden_case(config, shape):
    config = {**SMALL, **config}
    encoder, decoder = (part.double() for part in original(config))
    encoder = golden(encoder, "encoder.", draw_tensor("images", shape))
    decoder = golden(decoder, "decoder.", draw_tensor("latents", encoder["shape"]))
    return {"config": config, "images": shape, "encoder": encoder, "decoder": decoder}


def main():
    lines = [f"{json.dumps(name)}: {json.dumps(golden_case(*case))}" for name, case in CASES.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
