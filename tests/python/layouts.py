"""Public tokenizers at small width with random weights, saved as their programs save them: what `nsvq import` makes of each
has PyTorch's tokens and pictures, and `nsvq export --as` writes the same tensors again.

Run by ctest: run.sh layouts.py NSVQ, the program.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import OrderedDict

import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn" / "golden"))
import families
from families import TamingAttention, TamingBlock, norm, swish

SIDE = 32  # of the pictures


def config(family, **more):
    return {**families.SMALL, "family": family, "multipliers": [1, 2, 2], "latent_dim": 6, **more}


TAMING = config("taming", blocks=2, z_channels=12, attention=[2], mid_attention=True)


# LlamaGen: decoder.conv_blocks.0 has the lowest resolution.

def llamagen_block(inputs, outputs, blocks, attention):
    part, sizes = nn.Module(), [inputs] + [outputs] * blocks
    part.res = nn.ModuleList(map(TamingBlock, sizes, sizes[1:]))
    part.attn = nn.ModuleList(TamingAttention(outputs) for _ in range(blocks if attention else 0))
    return part


def llamagen_mid(channels):
    return nn.ModuleList([TamingBlock(channels, channels), TamingAttention(channels), TamingBlock(channels, channels)])


def conv_in_module(channels, stride=1, padding=1):
    part = nn.Module()
    part.conv = nn.Conv2d(channels, channels, 3, stride, padding)
    return part


class LlamagenEncoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(3, c["width"], 3, padding=1)
        self.conv_blocks = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip([c["width"]] + widths, widths)):
            block = llamagen_block(inputs, outputs, c["blocks"], i + 1 == len(widths))
            if i + 1 < len(widths):
                block.downsample = conv_in_module(outputs, 2, 0)
            self.conv_blocks.append(block)
        self.mid = llamagen_mid(widths[-1])
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], c["z_channels"], 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for block in self.conv_blocks:
            for i, res in enumerate(block.res):
                x = res(x)
                x = block.attn[i](x) if len(block.attn) else x
            if hasattr(block, "downsample"):
                x = block.downsample.conv(F.pad(x, (0, 1, 0, 1)))
        for part in self.mid:
            x = part(x)
        return self.conv_out(swish(self.norm_out(x)))


class LlamagenDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in reversed(c["multipliers"])]
        self.conv_in = nn.Conv2d(c["z_channels"], widths[0], 3, padding=1)
        self.mid = llamagen_mid(widths[0])
        self.conv_blocks = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[:1] + widths, widths)):
            block = llamagen_block(inputs, outputs, c["blocks"] + 1, i == 0)
            if i + 1 < len(widths):
                block.upsample = conv_in_module(outputs)
            self.conv_blocks.append(block)
        self.norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z):
        x = self.conv_in(z)
        for part in self.mid:
            x = part(x)
        for block in self.conv_blocks:
            for i, res in enumerate(block.res):
                x = res(x)
                x = block.attn[i](x) if len(block.attn) else x
            if hasattr(block, "upsample"):
                x = block.upsample.conv(F.interpolate(x, scale_factor=2.0))
        return self.conv_out(swish(self.norm_out(x)))


# diffusers: attention is of linear layers, decoder.up_blocks.0 has the lowest resolution.

class DiffusersBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = norm(inputs), norm(outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.conv_shortcut(x) + self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))


class DiffusersAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.group_norm = norm(channels)
        self.to_q, self.to_k, self.to_v = (nn.Linear(channels, channels) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(channels, channels), nn.Dropout(0)])

    def forward(self, x):
        tokens = self.group_norm(x).flatten(2).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(self.to_q(tokens)[:, None], self.to_k(tokens)[:, None], self.to_v(tokens)[:, None])
        return x + self.to_out[0](mixed[:, 0]).transpose(1, 2).reshape(x.shape)


class DiffusersLevel(nn.Module):
    def __init__(self, inputs, outputs, blocks, attention):
        super().__init__()
        sizes = [inputs] + [outputs] * blocks
        self.resnets = nn.ModuleList(map(DiffusersBlock, sizes, sizes[1:]))
        if attention:
            self.attentions = nn.ModuleList(DiffusersAttention(outputs) for _ in range(blocks))

    def forward(self, x):
        for i, resnet in enumerate(self.resnets):
            x = resnet(x)
            x = self.attentions[i](x) if hasattr(self, "attentions") else x
        return x


class DiffusersMid(nn.Module):
    def __init__(self, channels, attention):
        super().__init__()
        self.resnets = nn.ModuleList(DiffusersBlock(channels, channels) for _ in range(2))
        if attention:
            self.attentions = nn.ModuleList([DiffusersAttention(channels)])

    def forward(self, x):
        x = self.resnets[0](x)
        return self.resnets[1](self.attentions[0](x) if hasattr(self, "attentions") else x)


class DiffusersEncoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in c["multipliers"]]
        self.conv_in = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down_blocks = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[:1] + widths, widths)):
            level = DiffusersLevel(inputs, outputs, c["blocks"], i in c["attention"])
            if i + 1 < len(widths):
                level.downsamplers = nn.ModuleList([conv_in_module(outputs, 2, 0)])
            self.down_blocks.append(level)
        self.mid_block = DiffusersMid(widths[-1], c["mid_attention"])
        self.conv_norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], c["z_channels"], 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for level in self.down_blocks:
            x = level(x)
            if hasattr(level, "downsamplers"):
                x = level.downsamplers[0].conv(F.pad(x, (0, 1, 0, 1)))
        return self.conv_out(F.silu(self.conv_norm_out(self.mid_block(x))))


class DiffusersDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths = [c["width"] * m for m in reversed(c["multipliers"])]
        last = len(widths) - 1
        self.conv_in = nn.Conv2d(c["z_channels"], widths[0], 3, padding=1)
        self.mid_block = DiffusersMid(widths[0], c["mid_attention"])
        self.up_blocks = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths[:1] + widths, widths)):
            level = DiffusersLevel(inputs, outputs, c["blocks"] + 1, last - i in c["attention"])
            if i < last:
                level.upsamplers = nn.ModuleList([conv_in_module(outputs)])
            self.up_blocks.append(level)
        self.conv_norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z):
        x = self.mid_block(self.conv_in(z))
        for level in self.up_blocks:
            x = level(x)
            if hasattr(level, "upsamplers"):
                x = level.upsamplers[0].conv(F.interpolate(x, scale_factor=2.0))
        return self.conv_out(F.silu(self.conv_norm_out(x)))


# SimVQ: Open-MAGVIT2 without adaptive norms.

class Unchanged(nn.Module):
    def forward(self, x, z):
        return x


class SimvqDecoder(families.MagvitDecoder):
    def __init__(self, c):
        super().__init__(c)
        self.adaptive = nn.ModuleList(Unchanged() for _ in self.up)


# VAR: taming's networks, with queries, keys and values by one convolution.

class FusedAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm, self.qkv, self.proj_out = norm(channels), nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, c, h * w).unbind(1)
        weights = torch.einsum("bci,bcj->bij", q, k).mul(c**-0.5).softmax(2)
        return x + self.proj_out(torch.einsum("bij,bcj->bci", weights, v).reshape(b, c, h, w))


def fuse_attention(module):
    for name, child in module.named_children():
        if isinstance(child, TamingAttention):
            setattr(module, name, FusedAttention(child.q.in_channels))
        else:
            fuse_attention(child)


class VarEncoder(families.TamingEncoder):
    def __init__(self, c):
        super().__init__(c)
        fuse_attention(self)


class VarDecoder(families.TamingDecoder):
    def __init__(self, c):
        super().__init__(c)
        fuse_attention(self)


# How tokens are chosen: `scores` of each code, the largest wins.

class Codebook(nn.Module):
    def __init__(self, codes, channels):
        super().__init__()
        self.embedding = nn.Embedding(codes, channels)

    def table(self):
        return self.embedding.weight

    def prepared(self, z):
        return z

    def scores(self, z):
        return -torch.cdist(self.prepared(z), self.table())

    def vectors(self, tokens):
        return self.table()[tokens]


class UnitCodebook(Codebook):
    def __init__(self, codes, channels):
        super().__init__(codes, channels)
        self.register_buffer("codebook_used", torch.zeros(65536))

    def table(self):
        return F.normalize(self.embedding.weight, dim=-1)

    def prepared(self, z):
        return F.normalize(z, dim=-1)


class DotCodebook(Codebook):
    def scores(self, z):
        return z @ self.table().T


class ProjectedCodebook(Codebook):
    def __init__(self, codes, channels):
        super().__init__(codes, channels)
        self.embedding_proj = nn.Linear(channels, channels)

    def table(self):
        return self.embedding_proj(self.embedding.weight)


class GumbelCodebook(nn.Module):
    def __init__(self, codes, channels):
        super().__init__()
        self.proj, self.embed = nn.Conv2d(channels, codes, 1), nn.Embedding(codes, channels)

    def scores(self, z):
        return F.linear(z, self.proj.weight[:, :, 0, 0], self.proj.bias)

    def vectors(self, tokens):
        return self.embed.weight[tokens]


class ScaleCodebook(nn.Module):
    """VAR's: tokens of a scale are of what the scales before it leave."""

    sides = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16]
    count = sum(side * side for side in sides)

    def __init__(self, codes, channels):
        super().__init__()
        self.embedding, self.quant_resi = nn.Embedding(codes, channels), nn.Module()
        self.quant_resi.qresi_ls = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(4))
        self.register_buffer("ema_vocab_hit_SV", torch.zeros(len(self.sides), codes))

    def parts(self, tokens):
        ticks = np.linspace(1 / 3 / 4, 1 - 1 / 3 / 4, 4)
        for i, (side, own) in enumerate(zip(self.sides, tokens.split([side * side for side in self.sides], 1))):
            h = self.embedding(own).view(len(own), side, side, -1).permute(0, 3, 1, 2)
            h = h if side == self.sides[-1] else F.interpolate(h, size=(self.sides[-1],) * 2, mode="bicubic")
            phi = self.quant_resi.qresi_ls[np.argmin(np.abs(ticks - i / (len(self.sides) - 1))).item()]
            yield h * 0.5 + phi(h) * 0.5

    def scores(self, z, tokens):
        rest, found = z.permute(0, 3, 1, 2), []
        for side, part in zip(self.sides, self.parts(tokens)):
            small = F.interpolate(rest, size=(side, side), mode="area")
            found.append(-torch.cdist(small.flatten(2).transpose(1, 2), self.embedding.weight))
            rest = rest - part
        return torch.cat(found, 1).flatten(0, 1)

    def vectors(self, tokens):
        return sum(self.parts(tokens)).permute(0, 2, 3, 1)


class Signs(nn.Module):
    def __init__(self, codes, channels):
        super().__init__()
        self.register_buffer("bits", torch.tensor([[1.0 if code >> bit & 1 else -1.0 for bit in range(channels)] for code in range(codes)]), persistent=False)

    def scores(self, z):
        return -torch.cdist(z, self.bits)  # the nearest corner of the cube has the signs

    def vectors(self, tokens):
        return self.bits[tokens]


class StoredSigns(Signs):
    """MaskBit's, with its buffers in the file."""

    def __init__(self, codes, channels):
        super().__init__(codes, channels)
        self.register_buffer("bits_to_indices", (2 ** torch.arange(channels)).int())
        self.register_buffer("codebook", self.bits.clone())


class FiniteScalars(nn.Module):
    """Cosmos' levels: a channel is bounded and rounded to one of them."""

    def __init__(self, codes, channels):
        super().__init__()
        levels = [8, 8, 8, 5, 5, 5]
        self.register_buffer("_levels", torch.tensor(levels, dtype=torch.int32), persistent=False)
        self.register_buffer("_basis", torch.tensor([1] + levels[:-1]).cumprod(0).int(), persistent=False)
        self.register_buffer("implicit_codebook", self.vectors(torch.arange(codes)), persistent=False)

    def steps(self, z):
        """In whole levels, before they are rounded."""
        half, even = (self._levels - 1) * (1 + 1e-3) / 2, 0.5 * (self._levels % 2 == 0)
        return torch.tanh(z + torch.atanh(even / half)) * half - even

    def scores(self, z):
        return -torch.cdist(self.steps(z) / (self._levels // 2), self.implicit_codebook)

    def vectors(self, tokens):
        steps = tokens[..., None] // self._basis % self._levels
        return (steps - self._levels // 2) / (self._levels // 2)

    def forward(self, z):
        """[B, d, h, w] to tokens and codes, as the encoder's file returns them."""
        codes = self.steps(z.permute(0, 2, 3, 1)).round() / (self._levels // 2)
        tokens = ((codes * (self._levels // 2) + self._levels // 2) * self._basis).sum(-1).int()
        return tokens, codes.permute(0, 3, 1, 2)


class CodesOf(nn.Module):
    def __init__(self, quantizer):
        super().__init__()
        self.quantizer = quantizer

    def forward(self, tokens):
        return self.quantizer.vectors(tokens).permute(0, 3, 1, 2).to(self.quantizer.implicit_codebook.dtype)


class Original(nn.Module):
    """A program's tokenizer; its state_dict has the program's names."""

    def __init__(self, encoder, decoder, c, quantize, codes, unit=False):
        super().__init__()
        self.encoder, self.decoder, self.unit = encoder(c), decoder(c), unit
        self.quantize = quantize(codes, c["latent_dim"])
        if issubclass(encoder, families.TamingEncoder):  # whose quant_conv is a part of encoder.forward here
            self.quant_conv, self.post_quant_conv = self.encoder.quant_conv, self.decoder.post_quant_conv
            self.encoder.quant_conv = self.decoder.post_quant_conv = nn.Identity()
        elif c["z_channels"]:
            self.quant_conv = nn.Conv2d(c["z_channels"], c["latent_dim"], 1)
            self.post_quant_conv = nn.Conv2d(c["latent_dim"], c["z_channels"], 1)
        else:
            self.quant_conv = self.post_quant_conv = nn.Identity()

    def latents(self, pixels):
        """Pixels [B, 3, H, W] of 0 to 255 to [B, h, w, d]."""
        images = pixels / 255 if self.unit else pixels / 127.5 - 1
        return self.quant_conv(self.encoder(images)).permute(0, 2, 3, 1)

    def scores(self, latents, tokens):
        """Of every code, for each of the tokens that were chosen."""
        scaled = isinstance(self.quantize, ScaleCodebook)
        return self.quantize.scores(latents, tokens) if scaled else self.quantize.scores(latents.flatten(0, 2))

    def pictures(self, tokens):
        """Tokens [B, h, w] to pixels before they are rounded."""
        images = self.decoder(self.post_quant_conv(self.quantize.vectors(tokens).permute(0, 3, 1, 2)))
        return images * 255 if self.unit else (images + 1) * 127.5


@torch.no_grad()
def spread(model, pixels, tokens):
    """Scales the last layers so that latents differ from place to place, and pictures from white and black."""
    last = model.quant_conv if isinstance(model.quant_conv, nn.Conv2d) else model.encoder.conv_out
    latents = model.latents(pixels).flatten(0, 2)
    deviation, mean = latents.std(0), latents.mean(0)
    last.weight /= deviation[:, None, None, None]
    last.bias.copy_((last.bias - mean) / deviation)
    out = model.decoder.conv_out
    pictures = model.pictures(tokens)
    factor = 50 / pictures.std()
    black = 0 if model.unit else -1
    middle = (pictures.mean() / (255 if model.unit else 127.5)) + black
    out.weight *= factor
    out.bias.copy_((out.bias - middle) * factor + (0.5 if model.unit else 0))


def original(*arguments, **named):
    torch.manual_seed(len(named) + sum(map(ord, str(arguments[2]["family"]))))
    model = Original(*arguments, **named).eval().requires_grad_(False)
    codes = arguments[4]
    grid = torch.randint(0, codes, (2, ScaleCodebook.count) if arguments[3] is ScaleCodebook else (2, 4, 4))
    spread(model, pictures_of(2), grid)
    return model


def pictures_of(count):
    """Pixels [B, 3, SIDE, SIDE]: waves and noise."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    waves = [np.sin(2 * np.pi * (rng.uniform(0.5, 4) * x + rng.uniform(0.5, 4) * y + rng.uniform())) for _ in range(3 * count)]
    pixels = np.stack(waves).reshape(count, 3, SIDE, SIDE) * 90 + 127 + rng.normal(0, 12, (count, 3, SIDE, SIDE))
    return torch.from_numpy(pixels.clip(0, 255).round().astype(np.float32))


# Files as the programs write them.

class Callback:
    """A class that nothing may look up: what Lightning pickles beside the weights."""


class Hostile:
    """What runs a command where Python reads it."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def others(tensors):
    """Last weights that are not the average."""
    return OrderedDict((name, tensor + 1 if tensor.is_floating_point() else tensor) for name, tensor in tensors.items())


def lightning(model, file, average=False):
    tensors = model.state_dict()
    state = OrderedDict(others(tensors) if average else tensors)
    if average:
        frozen = "quantize.embedding.weight" if hasattr(model.quantize, "embedding_proj") else ""
        state |= {"model_ema.decay": torch.tensor(0.999), "model_ema.num_updates": torch.tensor(7)}
        state |= {"model_ema." + name.replace(".", ""): tensor for name, tensor in tensors.items() if name != frozen}
        if frozen:
            state[frozen] = tensors[frozen]
    state["loss.discriminator.main.0.weight"] = torch.zeros(4, 3, 4, 4)
    torch.save({"epoch": 3, "global_step": 7, "pytorch-lightning_version": "1.0.8", "state_dict": state,
                "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}}], "callbacks": {Callback: Callback()}}, file)


def averaged_lightning(model, file):
    lightning(model, file, average=True)


def dict_of_dicts(model, file):
    tensors = model.state_dict()
    torch.save({"model": others(tensors), "ema": tensors, "optimizer": {"state": {}}, "discriminator": {"w": torch.zeros(2)}, "steps": 7,
                "args": Namespace(vq_model="VQ-16")}, file)


def plain(model, file):
    torch.save(OrderedDict(model.state_dict()), file)


def in_safetensors(tensors, file):
    file.parent.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous().numpy() for name, tensor in tensors.items()}, file)


def diffusers_folder(model, file):
    in_safetensors(model.state_dict(), file / "diffusion_pytorch_model.safetensors")
    (file / "config.json").write_text(json.dumps({"_class_name": "VQModel", "act_fn": "silu", "norm_num_groups": 32, "norm_type": "group"}))


def cosmos_folder(model, file):
    """TorchScript of the encoder's side and of the decoder's, in bf16, which all of the model becomes."""
    model.bfloat16()
    file.mkdir()
    tokens = torch.zeros(1, 4, 4, dtype=torch.int32)
    encoder = [("encoder", model.encoder), ("quant_conv", model.quant_conv), ("quantizer", model.quantize)]
    decoder = [("inv_quant", CodesOf(model.quantize)), ("post_quant_conv", model.post_quant_conv), ("decoder", model.decoder)]
    for name, parts, example in ("encoder", encoder, pictures_of(1).bfloat16()), ("decoder", decoder, tokens):
        torch.jit.save(torch.jit.trace(nn.Sequential(OrderedDict(parts)), example, check_trace=False), file / f"{name}.jit")
    model.float()


def old_diffusers(model, file):
    names = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}
    tensors = OrderedDict()
    for name, tensor in model.state_dict().items():
        for now, then in names.items():
            name = name.replace(now, then)
        tensors[name] = tensor
    torch.save(tensors, file)


def larger_model(model, file):
    tensors = {"model.vqmodel." + name: tensor for name, tensor in model.state_dict().items()}
    in_safetensors(tensors | {"model.layers.0.mlp.weight": torch.zeros(3, 3), "lm_head.weight": torch.zeros(3)}, file)


T, D = (families.TamingEncoder, families.TamingDecoder), (DiffusersEncoder, DiffusersDecoder)
M = (families.MagvitEncoder, families.MagvitDecoder)
CHAMELEON = config("taming", multipliers=[1, 1, 1, 1, 1], latent_dim=256, z_channels=16, mid_attention=True)
VAR = config("taming", multipliers=[1, 2], blocks=1, attention=[1], mid_attention=True, latent_kernel=3)
CASES = {  # file: what it holds, how it is saved, the layout by name, how it is exported
    "last.ckpt": (lambda: original(*T, TAMING, Codebook, 64), lightning, "taming-transformers' VQGAN", "taming"),
    "gumbel.ckpt": (lambda: original(*T, {**TAMING, "z_channels": 6}, GumbelCodebook, 64), lightning, "Gumbel codes", "taming"),
    "vq_ds16_c2i.pt": (lambda: original(LlamagenEncoder, LlamagenDecoder, TAMING, UnitCodebook, 64), dict_of_dicts, "LlamaGen's VQ", "llamagen"),
    "ibq.ckpt": (lambda: original(*T, {**TAMING, "blocks": 4, "multipliers": [1, 2], "attention": [1]}, DotCodebook, 64), averaged_lightning, "IBQ", ""),
    "simvq.ckpt": (lambda: original(M[0], SimvqDecoder, config("magvit2", blocks=2), ProjectedCodebook, 64), averaged_lightning, "SimVQ", ""),
    "magvit2.ckpt": (lambda: original(*M, config("magvit2", blocks=4, multipliers=[1, 1, 2]), Signs, 64), averaged_lightning, "Open-MAGVIT2", ""),
    "maskgit.bin": (lambda: original(families.MaskgitEncoder, families.MaskgitDecoder, config("maskgit", blocks=2), Codebook, 64, unit=True), plain, "MaskGIT's VQGAN", ""),
    "vqgan_plus.bin": (lambda: original(families.MaskbitEncoder, families.MaskbitDecoder, config("maskbit", blocks=2), Codebook, 64, unit=True), plain, "VQGAN+", ""),
    "maskbit.bin": (lambda: original(families.MaskbitEncoder, families.MaskbitDecoder, config("maskbit", blocks=2), StoredSigns, 64, unit=True), plain, "MaskBit's tokenizer", ""),
    "cosmos": (lambda: original(families.CosmosEncoder, families.CosmosDecoder, {**TAMING, "attention": [], "halvings": 1, "haar": 2}, FiniteScalars, 64000), cosmos_folder, "Cosmos' tokenizer of images", ""),
    "vqvae": (lambda: original(*D, TAMING, Codebook, 64), diffusers_folder, "diffusers' VQModel", "diffusers"),
    "old.bin": (lambda: original(*D, {**TAMING, "blocks": 1, "attention": [0, 2], "multipliers": [1, 2, 3]}, Codebook, 64), old_diffusers, "diffusers' VQModel", ""),
    "vae_ch160v4096z32.pth": (lambda: original(VarEncoder, VarDecoder, VAR, ScaleCodebook, 64), plain, "VAR's VQVAE", ""),
    "chameleon.safetensors": (lambda: original(*T, CHAMELEON, Codebook, 8192), larger_model, "Chameleon's VQGAN", ""),
}


NEAREST = {"vq_ds16_c2i.pt", "cosmos", "vqvae", "old.bin"}  # of 256 levels; the others round down


class Test:
    def __init__(self, nsvq, folder):
        self.nsvq, self.folder, self.pixels = nsvq, folder, pictures_of(4)
        (folder / "photos").mkdir()
        for i, picture in enumerate(self.pixels):
            Image.fromarray(picture.permute(1, 2, 0).to(torch.uint8).numpy()).save(folder / "photos" / f"{i}.png")

    def run(self, *words, code=0):
        done = subprocess.run([self.nsvq, *words], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    @torch.no_grad()
    def check(self, name):
        make, save, layout, program = CASES[name]
        model, file, imported = make(), self.folder / name, self.folder / f"{name}-model.safetensors"
        save(model, file)
        files = [file / "encoder.jit", file / "decoder.jit"] if save is cosmos_folder else [file]
        notes = self.run("import", *files, "--size", str(SIDE), "--out", imported)
        assert layout in notes.splitlines()[0], notes
        assert ("moving average (" in notes) == (save in (averaged_lightning, dict_of_dicts)), notes
        tokens, pictures = self.folder / f"{name}-tokens", self.folder / f"{name}-pictures"
        self.run("tokenize", imported, "--data", self.folder / "photos", "--out", tokens, "--device", "cpu")
        self.run("detokenize", imported, "--tokens", tokens, "--out", pictures, "--device", "cpu")
        found = torch.from_numpy(load_file(tokens / "tokens-00000.safetensors")["tokens"].astype(np.int64))
        self.compare_tokens(name, model, found)
        if "grids" in json.loads((tokens / "manifest.json").read_text()):
            self.check_snippet(tokens, found)
        shown = np.stack([np.asarray(Image.open(pictures / f"{i}.png")) for i in range(4)]).astype(int)
        expected = model.pictures(found).clamp(0, 255).permute(0, 2, 3, 1)
        expected = (expected.round() if name in NEAREST else expected.floor()).numpy().astype(int)
        assert np.abs(shown - expected).max() <= 1, (name, np.abs(shown - expected).max())
        assert (shown != expected).mean() < 0.01, (name, "levels are rounded differently")
        assert expected.std() > 10, "a flat picture would prove nothing"
        if program:
            self.check_export(model, imported, program)

    def compare_tokens(self, name, model, found):
        latents = model.latents(self.pixels)
        scores = model.scores(latents, found)
        best, chosen = scores.max(1).values, scores.gather(1, found.reshape(-1, 1))[:, 0]
        expected = scores.argmax(1).view(found.shape)
        different = (expected != found).double().mean().item()
        print(f"{name}: {expected.unique().numel()} codes in {found.numel()} tokens, {different:.1%} ties")
        assert ((best - chosen) <= 1e-3 * scores.std(1).clamp(min=1e-2)).all(), name
        assert different < 0.05 and expected.unique().numel() > 3, name

    def check_snippet(self, folder, found):
        """docs/tokens.md parts tokens by scales."""
        docs = pathlib.Path(__file__).parents[2] / "docs" / "tokens.md"
        snippet = next(text for text in re.findall(r"^```python\n(.*?)^```", docs.read_text(), re.DOTALL | re.MULTILINE) if "scales" in text)
        names = {"tokens": found.numpy()}
        exec(snippet.replace('"tokens/manifest.json"', repr(str(folder / "manifest.json"))), names)
        assert [scale.shape[1:] for scale in names["scales"]] == [(side, side) for side in ScaleCodebook.sides]
        assert (names["scales"][2][1].ravel() == found[1, 5:14].numpy()).all()

    def check_export(self, model, imported, program):
        out = self.folder / f"{program}.safetensors" if program != "diffusers" else self.folder / "again"
        self.run("export", imported, "--as", program, "--out", out, "--force")
        written = load_file(out if out.is_file() else out / "diffusion_pytorch_model.safetensors")
        tensors = model.state_dict()
        assert written.keys() == tensors.keys(), written.keys() ^ tensors.keys()
        for name, tensor in tensors.items():
            assert written[name].dtype == np.float32 and (written[name] == tensor.numpy()).all(), name

    def check_refused(self):
        model = original(*T, TAMING, Codebook, 64)
        tensors = model.state_dict() | {"quantize.quant_resi.qresi.weight": torch.zeros(6, 6, 3, 3)}
        torch.save(tensors, self.folder / "var.pth")
        message = self.run("import", self.folder / "var.pth", "--out", self.folder / "var.safetensors", code=2)
        assert "a VQVAE of several scales is recognised; its scales do not share four convolutions" in message, message
        save_file({"a.weight": np.zeros(3, np.float32)}, self.folder / "x.safetensors")
        message = self.run("import", self.folder / "x.safetensors", "--out", self.folder / "y.safetensors", code=2)
        assert "its layout is not known" in message, message
        message = self.run("import", self.folder / "cosmos" / "decoder.jit", "--out", self.folder / "y.safetensors", code=2)
        assert "Cosmos' decoder is recognised" in message and "encoder.jit decoder.jit" in message, message
        notes = self.run("import", self.folder / "cosmos", "--out", self.folder / "y.safetensors")
        assert "images of 256x256 as 32x32 tokens" in notes, notes
        torch.save({"state_dict": model.state_dict(), "callbacks": Hostile()}, self.folder / "hostile.ckpt")
        message = self.run("import", self.folder / "hostile.ckpt", "--out", self.folder / "z.safetensors", code=2)
        assert "posix.system" in message and "hostile.ckpt" in message and message.count("\n") == 1, message
        assert not (self.folder / "ran").exists()


def main(nsvq):
    with tempfile.TemporaryDirectory() as folder:
        test = Test(nsvq, pathlib.Path(folder))
        for name in CASES:
            test.check(name)
        test.check_refused()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
