"""A tokenizer that `nsvq export RUN --out model.safetensors` wrote, in PyTorch.

This file, load_model.py, lies beside model.safetensors and model.json and needs nothing else of nsvq:

    from load_model import load
    tokenizer = load()                                        # a torch.nn.Module
    tokens = tokenizer.encode(tokenizer.read("photo.jpg"))    # [1, h, w]
    image = tokenizer.decode(tokens)                          # [1, 3, H, W] in [-1, 1]

`python3 load_model.py photo.jpg` prints the tokens and writes photo-decoded.png. It needs torch, safetensors and, to
read pictures, Pillow.
"""

import json
import math
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

# What the networks of each model.family are made of, as in nsvq/nn/network_form.h.
FORM = {
    "biases": False,               # in residual blocks and encoder.conv_in
    "shortcut_of_result": False,   # a block's shortcut takes its result, not its input
    "halving": "padded_around",    # or padded_after, means: of an encoder's level
    "doubling": "depth_to_space",  # or nearest: of a decoder's level
    "more_decoder_blocks": 0,      # in each level than model.blocks
    "middle_as_levels": False,     # model.blocks middle blocks, not two
    "encoder_out_kernel": 1,       # of encoder.conv_out
    "latent_convolutions": False,  # encoder.quant_conv and decoder.post_quant_conv
    "adaptive_norms": False,       # one before each level of the decoder
}
FAMILIES = {
    "nsvq": {},
    "taming": {"biases": True, "halving": "padded_after", "doubling": "nearest", "more_decoder_blocks": 1,
               "encoder_out_kernel": 3, "latent_convolutions": True},
    "maskgit": {"shortcut_of_result": True, "halving": "means", "doubling": "nearest", "middle_as_levels": True},
    "maskbit": {"shortcut_of_result": True, "halving": "padded_after", "doubling": "nearest", "middle_as_levels": True},
    "magvit2": {"middle_as_levels": True, "adaptive_norms": True},
}


def form_of(config):
    return {**FORM, **FAMILIES[config.get("family", "nsvq")]}


def norm_groups(channels):
    if channels % 32 == 0:
        return 32
    return max(g for g in range(1, 33) if channels % g == 0 and (g == 1 or channels // g >= 4))


def group_norm(channels):
    return nn.GroupNorm(norm_groups(channels), channels, eps=1e-6)


def added(x, h):
    """Activations and a branch, or None, that are to be added."""
    return x if h is None else x + h


def add_norm(norm, x, h=None, silu=True):
    """x + h, and its group norm with SiLU."""
    total = added(x, h)
    return total, F.silu(norm(total)) if silu else norm(total)


def attend(q, k, v):
    """Attention of tokens [B, 1, N, C]. Written out, without scaled_dot_product_attention: tests check the one in C++ by it."""
    return torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]), dim=3) @ v


def depth_to_space(x):
    """[B, 4C, H, W] to [B, C, 2H, 2W]; channel (dy * 2 + dx) * C + c goes to offset (dy, dx)."""
    b, c, h, w = x.shape
    x = x.reshape(b, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // 4, 2 * h, 2 * w)


class Block(nn.Module):
    """A part of the networks. What it computes by can be replaced in each instance, by faster functions with these arguments.
    ResBlock, Attention, Level and Mid are given activations [B, C, H, W] and a branch, or None, that the next norm adds to
    them, and give such a pair."""

    add_norm = staticmethod(add_norm)
    attend = staticmethod(attend)
    depth_to_space = staticmethod(depth_to_space)


class ResBlock(Block):
    def __init__(self, inputs, outputs, form):
        super().__init__()
        biases, self.of_result = form["biases"], form["shortcut_of_result"]
        self.norm1 = group_norm(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=biases)
        self.norm2 = group_norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=biases)
        if inputs != outputs:
            self.nin_shortcut = nn.Conv2d(outputs if self.of_result else inputs, outputs, 1, bias=biases)

    def forward(self, x, h=None):
        x, inner = self.add_norm(self.norm1, x, h)
        h = self.conv2(self.add_norm(self.norm2, self.conv1(inner))[1])
        if hasattr(self, "nin_shortcut"):
            x = self.nin_shortcut(h if self.of_result else x)
        return x, h


class Attention(Block):
    """With one head, over all positions."""

    def __init__(self, channels):
        super().__init__()
        self.norm = group_norm(channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, h=None):
        x, h = self.add_norm(self.norm, x, h, silu=False)
        mixed = self.attend(*(conv(h).flatten(2).transpose(1, 2).unsqueeze(1) for conv in (self.q, self.k, self.v)))
        return x, self.proj_out(mixed.squeeze(1).transpose(1, 2).unflatten(2, x.shape[2:]))


def to_haar(x):
    """[B, C, H, W] to [B, 4C, H/2, W/2]: means of 2x2 pixels, half the differences of rows, columns and diagonals."""
    left, right = x[..., ::2], x[..., 1::2]
    low, high = left + right, left - right
    rows = [(part[..., ::2, :], part[..., 1::2, :]) for part in (low, high)]
    return torch.cat([joined for top, bottom in rows for joined in (top + bottom, top - bottom)], 1) / 4


def from_haar(x):
    def joined(first, second, dim):
        return torch.stack((first, second), dim + 1).flatten(dim, dim + 1)

    m, r, c, d = x.chunk(4, 1)
    low, high = joined(m + r, m - r, 2), joined(c + d, c - d, 2)
    return joined(low + high, low - high, 3)


def halving_levels(config):
    halvings = config.get("halvings", -1)
    return len(config["multipliers"]) - 1 if halvings < 0 else halvings


class Level(Block):
    def __init__(self, inputs, outputs, blocks, attention, form):
        super().__init__()
        self.block = nn.ModuleList(
            ResBlock(outputs if i else inputs, outputs, form) for i in range(blocks))
        self.attn = nn.ModuleList(Attention(outputs) for _ in range(blocks if attention else 0))

    def forward(self, x, h=None):
        for i, block in enumerate(self.block):
            x, h = block(x, h)
            if len(self.attn):
                x, h = self.attn[i](x, h)
        return x, h


class Mid(nn.Module):
    """block_1, attn_1 if there is attention, block_2 and so on."""

    def __init__(self, channels, config, form):
        super().__init__()
        for i in range(config["blocks"] if form["middle_as_levels"] else 2):
            self.add_module(f"block_{i + 1}", ResBlock(channels, channels, form))
            if i == 0 and config["mid_attention"]:
                self.attn_1 = Attention(channels)

    def forward(self, x, h=None):
        for block in self.children():
            x, h = block(x, h)
        return x, h


def halve(halving, level, x):
    if halving == "means":
        return F.avg_pool2d(x, 2)
    return level.downsample(F.pad(x, (0, 1, 0, 1)) if halving == "padded_after" else x)


def double(doubling, level, x):
    if doubling == "nearest":
        return level.upsample(F.interpolate(x, scale_factor=2, mode="nearest"))
    return level.depth_to_space(level.upsample(x))


class AdaptiveNorm(nn.Module):
    """GroupNorm; scale and shift are linear maps of each channel's deviation and mean over an image's latents."""

    def __init__(self, latent_dim, channels):
        super().__init__()
        self.gamma = nn.Linear(latent_dim, channels)
        self.beta = nn.Linear(latent_dim, channels)

    def forward(self, x, latents):
        latents = latents.flatten(2)
        deviation = (latents.var(2, correction=min(1, latents.shape[2] - 1)) + 1e-6).sqrt()
        scale, shift = self.gamma(deviation), self.beta(latents.mean(2))
        return F.group_norm(x, norm_groups(x.shape[1]), eps=1e-6) * scale[:, :, None, None] + shift[:, :, None, None]


class Encoder(Block):
    def __init__(self, config):
        super().__init__()
        form = form_of(config)
        widths = [config["width"] * m for m in config["multipliers"]]
        inner, kernel = config.get("z_channels") or config["latent_dim"], form["encoder_out_kernel"]
        self.halving, self.halvings, self.haar = form["halving"], halving_levels(config), config.get("haar", 0)
        self.conv_in = nn.Conv2d(3 * 4**self.haar, config["width"], 3, padding=1, bias=form["biases"])
        self.down = nn.ModuleList()
        for i, width in enumerate(widths):
            inputs = widths[i - 1] if i else config["width"]
            level = Level(inputs, width, config["blocks"], i in config["attention"], form)
            if i < self.halvings and self.halving != "means":
                level.downsample = nn.Conv2d(width, width, 3, stride=2, padding=int(self.halving == "padded_around"))
            self.down.append(level)
        self.mid = Mid(widths[-1], config, form)
        self.norm_out = group_norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], inner, kernel, padding=kernel // 2)
        if form["latent_convolutions"]:
            kernel = config.get("latent_kernel", 1)
            self.quant_conv = nn.Conv2d(inner, config["latent_dim"], kernel, padding=kernel // 2)

    def forward(self, x):
        for _ in range(self.haar):
            x = to_haar(x)
        x, h = self.conv_in(x), None
        for i, level in enumerate(self.down):
            x, h = level(x, h)
            if i < self.halvings:
                x, h = halve(self.halving, level, added(x, h)), None
        x = self.conv_out(self.add_norm(self.norm_out, *self.mid(x, h))[1])
        return self.quant_conv(x) if hasattr(self, "quant_conv") else x


class Decoder(Block):
    def __init__(self, config):
        super().__init__()
        form = form_of(config)
        widths = [config["width"] * m for m in config["multipliers"]]
        latent, kernel = config["latent_dim"], config.get("latent_kernel", 1)
        inner = config.get("z_channels") or latent
        self.doubling, self.haar = form["doubling"], config.get("haar", 0)
        self.first_doubling = len(widths) - halving_levels(config)
        if form["latent_convolutions"]:
            self.post_quant_conv = nn.Conv2d(latent, inner, kernel, padding=kernel // 2)
        self.conv_in = nn.Conv2d(inner, widths[-1], 3, padding=1)
        self.mid = Mid(widths[-1], config, form)
        self.up = nn.ModuleList()  # up[0] is full resolution, so it is applied last
        for i, width in enumerate(widths):
            inputs = widths[min(i + 1, len(widths) - 1)]
            level = Level(inputs, width, config["blocks"] + form["more_decoder_blocks"], i in config["attention"], form)
            if i >= self.first_doubling:
                level.upsample = nn.Conv2d(width, width if self.doubling == "nearest" else 4 * width, 3, padding=1)
            self.up.append(level)
        if form["adaptive_norms"]:
            self.adaptive = nn.ModuleList(AdaptiveNorm(latent, level.block[0].norm1.num_channels) for level in self.up)
        self.norm_out = group_norm(widths[0])
        self.conv_out = nn.Conv2d(widths[0], 3 * 4**self.haar, 3, padding=1)

    def forward(self, latents):
        x = self.post_quant_conv(latents) if hasattr(self, "post_quant_conv") else latents
        x, h = self.mid(self.conv_in(x))
        for i in reversed(range(len(self.up))):
            if hasattr(self, "adaptive"):
                x, h = self.adaptive[i](added(x, h), latents), None
            x, h = self.up[i](x, h)
            if i >= self.first_doubling:
                x, h = double(self.doubling, self.up[i], added(x, h)), None
        x = self.conv_out(self.add_norm(self.norm_out, x, h)[1])
        for _ in range(self.haar):
            x = from_haar(x)
        return x


class Autoencoder(nn.Module):
    """`.encoder` and `.decoder` for the `model` section of a recipe, with the parameter names of nsvq's files."""

    def __init__(self, config):
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


def unit(vectors):
    """Vectors along dimension 1 divided by their norms."""
    return vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-12)


def by_chunks(choose, rows, codes):
    """choose(rows [n, d]) -> [n], for as many rows at a time as make 2^25 numbers with all codes."""
    return torch.cat([choose(part) for part in rows.split(max(1, 2**25 // codes))])


def nearest(rows, codes):
    """The number [N] of the nearest code [K, d] of each row [N, d]; near ties may go either way."""
    return by_chunks(lambda part: torch.cdist(part, codes).argmin(1), rows, len(codes))


def largest(rows, weights, offsets):
    """The number [N] of the largest logit, row . weights[j] + offsets[j]."""
    return by_chunks(lambda part: torch.addmm(offsets, part, weights.t()).argmax(1), rows, len(weights))


class Quantizer(nn.Module):
    """The nearest of the rows of `codebook`; other rules are below. `settings` is the section `quantizer` of a recipe.
    Parameters and buffers are those of nsvq's files."""

    nearest = staticmethod(nearest)  # can be replaced by a faster function with these arguments

    def __init__(self, settings, dim):
        super().__init__()
        self.settings, self.kind = settings, settings["type"]
        self.normalise = bool(settings.get("normalise")) or self.kind == "factorised"
        self.count = settings["codes"]
        self.add_tensors(settings, self.count, dim)

    def add_tensors(self, settings, count, dim):
        if self.kind in ("ema", "jukebox", "soundstream"):
            self.register_buffer("codebook", torch.zeros(count, dim))
            self.register_buffer("counts", torch.zeros(count))
            self.register_buffer("sums", torch.zeros(count, dim))
        else:
            self.codebook = nn.Parameter(torch.zeros(count, dim))
        if self.kind == "sqvae":
            self.log_variance = nn.Parameter(torch.zeros(()))
        self.add_running_mean(settings)

    def add_running_mean(self, settings):
        if self.kind in ("nsvq", "simvq_ns") and settings.get("tau_of_nearest", 0) > 0:
            self.register_buffer("nearest_distance", torch.zeros(()))

    def made_codes(self):
        return self.codebook

    def codes(self):
        """[K, d], as latents are compared with them and as the decoder is given them."""
        return unit(self.made_codes()) if self.normalise else self.made_codes()

    def choose(self, rows):
        codes = self.codes()
        if self.kind == "cvq" and not self.normalise and self.settings.get("cvq", {}).get("distance") == "cosine":
            rows, codes = unit(rows), unit(codes)
        return self.nearest(rows, codes)

    def encode(self, latents):
        """Latents [B, d, h, w] to tokens [B, h, w], or [B, n] of several grids."""
        z = unit(latents) if self.normalise else latents
        rows = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        return self.choose(rows).view(len(z), *z.shape[2:])

    def decode(self, tokens):
        """Such tokens to the latents [B, d, h, w] that the decoder is given."""
        return F.embedding(tokens, self.codes()).permute(0, 3, 1, 2)


class LinearMap(Quantizer):
    """simvq, simvq_ns: a frozen codebook through a linear map; vqgan_lc: features of images through one."""

    def add_tensors(self, settings, count, dim):
        features = self.kind == "vqgan_lc"
        inputs = settings["features"]["dim"] if features else dim
        self.register_buffer("features" if features else "codebook", torch.zeros(count, inputs))
        self.projection = nn.Linear(inputs, dim)
        self.add_running_mean(settings)

    def made_codes(self):
        return self.projection(self.features if self.kind == "vqgan_lc" else self.codebook)


class Affine(Quantizer):
    """A codebook behind a scale and a shift that all codes share, learned or from running statistics."""

    def add_tensors(self, settings, count, dim):
        self.codebook = nn.Parameter(torch.zeros(count, dim))
        self.learned, self.rate = settings["affine"]["variant"] == "learned", settings["affine"]["rate"]
        if self.learned:
            self.scale, self.shift = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        else:  # means and variances of latents, then of codes
            self.register_buffer("statistics", torch.zeros(4, dim))
            self.register_buffer("started", torch.zeros(1))

    def made_codes(self):
        if self.learned:
            return self.codebook * (1 + self.rate * self.scale) + self.rate * self.shift
        mean, variance, code_mean, code_variance = self.statistics
        mapped = (self.codebook - code_mean) * (variance / (code_variance + 1e-8)).sqrt() + mean
        return torch.where(self.started > 0, mapped, self.codebook)


def layer_norm(x, shift=None, scale=None):
    x = F.layer_norm(x, x.shape[-1:], eps=1e-6)
    return x if shift is None else x * (1 + scale) + shift


class VitBlock(nn.Module):
    """A transformer's block on tokens [T, width]; `modulation` [6, width] are shift, scale and gate of attention and MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attention(self, x):
        count, width = x.shape
        q, k, v = self.qkv(x).view(count, 3, self.heads, width // self.heads).permute(1, 2, 0, 3)
        shares = torch.softmax((q * (1 / math.sqrt(width // self.heads))) @ k.transpose(1, 2), -1)
        return self.proj((shares @ v).transpose(0, 1).reshape(count, width))

    def mlp(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))

    def forward(self, x, modulation=None):
        if modulation is None:
            x = x + self.attention(layer_norm(x))
            return x + self.mlp(layer_norm(x))
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation
        x = x + gate1 * self.attention(layer_norm(x, shift1, scale1))
        return x + gate2 * self.mlp(layer_norm(x, shift2, scale2))


def sincos_positions(side, width, like):
    """Positions [side * side, width] of tokens on a square, row by row."""
    angles = torch.outer(torch.arange(side, dtype=torch.float64, device=like.device),
                         torch.pow(1e-4, torch.arange(width // 4, dtype=torch.float64, device=like.device) / (width // 4)))
    along = torch.cat((angles.sin(), angles.cos()), 1)
    columns, rows = along.expand(side, side, -1), along.unsqueeze(1).expand(side, side, -1)
    return torch.cat((columns, rows), 2).reshape(side * side, width).to(like.dtype)


class Bridge(nn.Module):
    """A codebook [K, d] as a square of codes through a transformer on its patches (VQBridge)."""

    def __init__(self, settings, count, dim):
        super().__init__()
        width, numbers = settings["width"], settings["patch"] ** 2 * dim
        self.patch, self.patches = settings["patch"], math.isqrt(count) // settings["patch"]
        self.embed, self.last = nn.Linear(dim * self.patch**2, width), nn.Linear(width, numbers)
        self.blocks = nn.ModuleList(VitBlock(width, settings["heads"]) for _ in range(settings["blocks"]))
        if settings["variant"] == "dit":
            self.condition = nn.Parameter(torch.zeros(width))
            rows = [6] * len(self.blocks) + [2]
            self.modulation = nn.ModuleList(nn.Linear(width, count * width) for count in rows)

    def modulated(self, x):
        x = x + sincos_positions(self.patches, x.shape[1], x)
        given = F.silu(self.condition)
        for block, layer in zip(self.blocks, self.modulation):
            x = block(x, layer(given).view(6, -1))
        return layer_norm(x, *self.modulation[-1](given).view(2, -1))

    def forward(self, codebook):
        n, p, dim = self.patches, self.patch, codebook.shape[1]
        x = self.embed(codebook.view(n, p, n, p, dim).permute(0, 2, 1, 3, 4).reshape(n * n, p * p * dim))
        if hasattr(self, "condition"):
            x = self.modulated(x)
        else:
            for block in self.blocks:
                x = block(x)
            x = layer_norm(x)
        return self.last(x).view(n, n, p, p, dim).permute(0, 2, 1, 3, 4).reshape(-1, dim)


class Bridged(Quantizer):
    """fvq: codes that a small transformer makes of a trained codebook."""

    def add_tensors(self, settings, count, dim):
        self.bridge = Bridge(settings["bridge"], count, dim)
        self.embedding = nn.Parameter(torch.zeros(count, dim))

    def made_codes(self):
        return self.bridge(self.embedding)


class LargestLogit(Quantizer):
    """gumbel: logits by a projection of the latent; ibq: by its products with the codes."""

    def add_tensors(self, settings, count, dim):
        self.codebook = nn.Parameter(torch.zeros(count, dim))
        if self.kind == "gumbel":
            self.projection = nn.Linear(dim, count)

    def choose(self, rows):
        if self.kind == "gumbel":
            return largest(rows, self.projection.weight, self.projection.bias)
        return largest(rows, self.codebook, self.codebook.new_zeros(len(self.codebook)))


class FiniteScalar(Quantizer):
    """fsq: each channel rounded to one of its levels."""

    def add_tensors(self, settings, count, dim):
        self.count = math.prod(settings["fsq"]["levels"])
        self.register_buffer("levels", torch.zeros(dim, 1, 1))

    def strides(self):
        levels = self.levels.long()
        return levels.cumprod(0) // levels

    def codes(self):
        return self.decode(torch.arange(self.count, device=self.levels.device).view(-1, 1, 1)).flatten(1)

    def encode(self, latents):
        half, offset = (self.levels - 1) * (1.001 / 2), 0.5 * (1 - self.levels.remainder(2))
        bounded = (latents + torch.atanh(offset / half)).tanh() * half - offset
        least = -(self.levels / 2).floor()
        steps = torch.minimum(torch.maximum(bounded.round(), least), least + self.levels - 1) - least
        return (steps.long() * self.strides()).sum(1)

    def decode(self, tokens):
        width = (self.levels / 2).floor()
        steps = (tokens.unsqueeze(1) // self.strides()).remainder(self.levels.long())
        return (steps.to(self.levels) - width) / width


class LookupFree(Quantizer):
    """lfq: the signs of a latent."""

    def add_tensors(self, settings, count, dim):
        self.bits, self.count = settings["lfq"]["bits"], 2 ** settings["lfq"]["bits"]

    def codes(self):
        return self.decode(torch.arange(self.count).view(-1, 1, 1)).flatten(1)

    def weights(self, device):
        return (2 ** torch.arange(self.bits, device=device)).view(-1, 1, 1)

    def encode(self, latents):
        return ((latents > 0) * self.weights(latents.device)).sum(1)

    def decode(self, tokens):
        return torch.where(tokens.unsqueeze(1) & self.weights(tokens.device) != 0, 1.0, -1.0)


class Scales(Quantizer):
    """var: residuals at growing scales, for images of one size. Tokens [B, n] are those of all grids, each row by row."""

    def add_tensors(self, settings, count, dim):
        self.sides = settings["var"]["scales"]
        self.phi = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1) for _ in range(4))
        self.register_buffer("codebook", torch.zeros(count, dim))

    def part(self, scale, tokens):
        """What the tokens [B, side, side] of a scale add to the latents."""
        codes, last = F.embedding(tokens, self.codebook).permute(0, 3, 1, 2), len(self.sides) - 1
        if scale < last:
            codes = F.interpolate(codes, size=(self.sides[-1],) * 2, mode="bicubic", align_corners=False)
        # numpy's linspace(1/12, 11/12, 4) to the last bit: it decides where two are as near.
        ticks = (0.08333333333333333, 0.36111111111111105, 0.6388888888888888, 0.9166666666666666)
        phi = self.phi[min(range(4), key=lambda i: abs(ticks[i] - scale / last))]
        return (codes + phi(codes)) / 2

    def encode(self, latents):
        if latents.shape[2:] != (self.sides[-1], self.sides[-1]):
            raise ValueError(f"images: quantizer.var.scales end with grids of {self.sides[-1]}x{self.sides[-1]}; of this size "
                             f"the latents are {latents.shape[2]}x{latents.shape[3]}")
        found = []
        for scale, side in enumerate(self.sides):
            found.append(super().encode(F.adaptive_avg_pool2d(latents, side)))
            if scale + 1 < len(self.sides):
                latents = latents - self.part(scale, found[-1])
        return torch.cat([tokens.flatten(1) for tokens in found], 1)

    def decode(self, tokens):
        grids = tokens.split([side * side for side in self.sides], 1)
        return sum(self.part(i, grid.reshape(-1, side, side)) for i, (side, grid) in enumerate(zip(self.sides, grids)))


class NoTokens(Quantizer):
    """none: a continuous autoencoder."""

    def add_tensors(self, settings, count, dim):
        self.count = 0

    def codes(self):
        raise ValueError("quantizer.type is none: a continuous autoencoder has no tokens; use latents() and images()")

    def encode(self, latents):
        self.codes()

    def decode(self, tokens):
        self.codes()


QUANTIZERS = {**dict.fromkeys(("vq", "nsvq", "ema", "jukebox", "soundstream", "cvq", "factorised", "sqvae"), Quantizer),
              **dict.fromkeys(("simvq", "simvq_ns", "vqgan_lc"), LinearMap), "affine": Affine, "fvq": Bridged,
              **dict.fromkeys(("gumbel", "ibq"), LargestLogit), "fsq": FiniteScalar, "lfq": LookupFree, "var": Scales,
              "none": NoTokens}


class Tokenizer(Autoencoder):
    """Encoder, quantizer and decoder. `config` has every setting of the run by section (model.json)."""

    def __init__(self, config, weights):
        with torch.device("meta"):  # without initial values: all are in the file
            super().__init__(config["model"])
            self.quantizer = QUANTIZERS[config["quantizer"]["type"]](config["quantizer"], config["model"]["latent_dim"])
        self.config = config
        self.load_state_dict(weights, assign=True)

    @property
    def codebook(self):
        """All codes [K, d] as the decoder is given them."""
        return self.quantizer.codes()

    def latents(self, images):
        """Images [B, 3, H, W] in [-1, 1] to latents [B, d, h, w]."""
        seen = (images + 1) / 2 if self.config["model"].get("range") == "unit" else images
        return self.encoder(to_opponent(seen) if self.config["model"].get("colors") == "opponent" else seen)

    def images(self, latents):
        """Latents [B, d, h, w], quantized ones or not, to images [B, 3, H, W] in [-1, 1]."""
        images = self.decoder(latents)
        images = from_opponent(images) if self.config["model"].get("colors") == "opponent" else images
        return images * 2 - 1 if self.config["model"].get("range") == "unit" else images

    @torch.no_grad()
    def encode(self, images):
        """Images [B, 3, H, W] in [-1, 1], of sides that the stride divides, to tokens [B, h, w], or [B, n] of several grids."""
        return self.quantizer.encode(self.latents(images))

    @torch.no_grad()
    def decode(self, tokens):
        """Such tokens to images [B, 3, H, W] in [-1, 1]."""
        return self.images(self.quantizer.decode(tokens))

    def read(self, path):
        """An image file as nsvq reads it, [1, 3, size, size] in [-1, 1]: the short side resized, the centre cropped."""
        from PIL import Image, ImageOps

        size = self.config["data"]["size"]
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        short = min(image.size)
        width, height = (int(size * side / short) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)   # antialiased
        left, top = round((width - size) / 2), round((height - size) / 2)  # half to even
        image = image.crop((left, top, left + size, top + size))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(size, size, 3)
        return from_bytes(pixels.permute(2, 0, 1)[None].contiguous().to(next(self.parameters()).device))


def from_bytes(pixels):
    """Bytes to [-1, 1], rounded once."""
    return (pixels.double() / 127.5 - 1).float()


def to_opponent(x):  # what networks see with model.colors: opponent
    r, g, b = x.unbind(1)
    return torch.stack([(r + g + b) / 3, (r - b) * 1.5, (g - (r + b) / 2) * 4], 1)


def from_opponent(x):
    y, orange, green = x[:, 0], x[:, 1] / 3, x[:, 2] * (2 / 24)
    return torch.stack([y - green + orange, y + 2 * green, y - green - orange], 1)


def load(path=None):
    """The tokenizer in FILE.safetensors and the FILE.json or config.json beside it; by default those of this load_FILE.py."""
    from safetensors.torch import load_file

    here = pathlib.Path(__file__)
    path = pathlib.Path(path or here.with_name(here.stem.removeprefix("load_") + ".safetensors"))
    settings = path.with_suffix(".json")
    settings = settings if settings.exists() else path.with_name("config.json")
    return Tokenizer(json.loads(settings.read_text()), load_file(path)).eval()


def main(photo):
    from PIL import Image

    tokenizer = load()
    tokens = tokenizer.encode(tokenizer.read(photo))
    print(tokens[0].tolist())
    pixels = ((tokenizer.decode(tokens)[0].permute(1, 2, 0) + 1) * 127.5).clamp(0, 255)
    pixels = (pixels if tokenizer.config["model"].get("rounding") == "down" else pixels.round()).to(torch.uint8)
    Image.fromarray(pixels.numpy()).save(pathlib.Path(photo).with_name(pathlib.Path(photo).stem + "-decoded.png"))


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
