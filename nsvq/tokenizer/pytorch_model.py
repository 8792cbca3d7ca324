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

# Quantizers that choose the nearest code of a codebook; for others the networks load alone.
NEAREST = ("vq", "nsvq", "ema", "jukebox", "soundstream", "sqvae", "cvq")


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
    """Written out, without scaled_dot_product_attention: tests check the one in C++ by it."""

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
    """`.encoder` and `.decoder` for the `model` section of a recipe, with the parameter names of nsvq's files."""

    def __init__(self, config):
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


class Tokenizer(Autoencoder):
    """Encoder, codebook and decoder. `config` has every setting of the run by section (model.json)."""

    def __init__(self, config, weights):
        super().__init__(config["model"])
        self.config = config
        self.register_buffer("codebook", weights.get("quantizer.codebook"), persistent=False)  # [K, d]
        self.load_state_dict({name: value for name, value in weights.items() if not name.startswith("quantizer.")})

    def latents(self, images):
        """Images [B, 3, H, W] in [-1, 1] to latents [B, d, h, w]."""
        return self.encoder(to_opponent(images) if self.config["model"]["colors"] == "opponent" else images)

    def images(self, latents):
        """Latents [B, d, h, w], quantized ones or not, to images [B, 3, H, W] in [-1, 1]."""
        images = self.decoder(latents)
        return from_opponent(images) if self.config["model"]["colors"] == "opponent" else images

    @torch.no_grad()
    def encode(self, images):
        """Images [B, 3, H, W] in [-1, 1], of sides that the stride divides, to tokens [B, h, w]."""
        self.check_nearest()
        latents = self.latents(images).permute(0, 2, 3, 1)  # [B, h, w, d]
        rows, codes = latents.flatten(0, 2), self.codebook
        if self.config["quantizer"]["type"] == "cvq" and self.config["quantizer"]["cvq"]["distance"] == "cosine":
            rows, codes = F.normalize(rows), F.normalize(codes)
        return torch.cdist(rows, codes).argmin(1).view(latents.shape[:3])

    @torch.no_grad()
    def decode(self, tokens):
        """Tokens [B, h, w] to images [B, 3, H, W] in [-1, 1]."""
        self.check_nearest()
        return self.images(self.codebook[tokens].permute(0, 3, 1, 2))

    def check_nearest(self):
        kind = self.config["quantizer"]["type"]
        if kind not in NEAREST:
            raise NotImplementedError(f"tokens of quantizer.type={kind}: use `nsvq tokenize` and `nsvq detokenize`")

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
        return pixels.permute(2, 0, 1)[None].to(next(self.parameters()).device) / 127.5 - 1


def to_opponent(x):  # what networks see with model.colors: opponent
    r, g, b = x.unbind(1)
    return torch.stack([(r + g + b) / 3, (r - b) * 1.5, (g - (r + b) / 2) * 4], 1)


def from_opponent(x):
    y, orange, green = x[:, 0], x[:, 1] / 3, x[:, 2] / 12
    return torch.stack([y - green + orange, y + 2 * green, y - green - orange], 1)


def load(path=None):
    """The tokenizer in FILE.safetensors and the FILE.json beside it; by default those of this load_FILE.py."""
    from safetensors.torch import load_file

    here = pathlib.Path(__file__)
    path = pathlib.Path(path or here.with_name(here.stem.removeprefix("load_") + ".safetensors"))
    return Tokenizer(json.loads(path.with_suffix(".json").read_text()), load_file(path)).eval()


def main(photo):
    from PIL import Image

    tokenizer = load()
    tokens = tokenizer.encode(tokenizer.read(photo))
    print(tokens[0].tolist())
    pixels = ((tokenizer.decode(tokens)[0].permute(1, 2, 0) + 1) * 127.5).clamp(0, 255).round().to(torch.uint8)
    Image.fromarray(pixels.numpy()).save(pathlib.Path(photo).with_name(pathlib.Path(photo).stem + "-decoded.png"))


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
