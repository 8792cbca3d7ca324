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


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, form):
        super().__init__()
        biases, self.of_result = form["biases"], form["shortcut_of_result"]
        self.norm1 = group_norm(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=biases)
        self.norm2 = group_norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=biases)
        if inputs != outputs:
            self.nin_shortcut = nn.Conv2d(outputs if self.of_result else inputs, outputs, 1, bias=biases)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        if hasattr(self, "nin_shortcut"):
            x = self.nin_shortcut(h if self.of_result else x)
        return x + h


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


def to_haar(x):
    """[B, C, H, W] to [B, 4C, H/2, W/2]: means of 2x2 pixels, half the differences of rows, columns and diagonals."""
    a, b, c, d = x[..., ::2, ::2], x[..., ::2, 1::2], x[..., 1::2, ::2], x[..., 1::2, 1::2]
    return torch.cat([a + b + c + d, a + b - c - d, a - b + c - d, a - b - c + d], 1) / 4


def from_haar(x):
    m, r, c, d = x.chunk(4, 1)
    rows = [torch.stack(pair, -1).flatten(-2) for pair in ((m + r + c + d, m + r - c - d), (m - r + c - d, m - r - c + d))]
    return torch.stack(rows, -2).flatten(-3, -2)


def halving_levels(config):
    halvings = config.get("halvings", -1)
    return len(config["multipliers"]) - 1 if halvings < 0 else halvings


class Level(nn.Module):
    def __init__(self, inputs, outputs, blocks, attention, form):
        super().__init__()
        self.block = nn.ModuleList(
            ResBlock(outputs if i else inputs, outputs, form) for i in range(blocks))
        self.attn = nn.ModuleList(Attention(outputs) for _ in range(blocks if attention else 0))

    def forward(self, x):
        for i, block in enumerate(self.block):
            x = block(x)
            if len(self.attn):
                x = self.attn[i](x)
        return x


class Mid(nn.Sequential):
    """block_1, attn_1 if there is attention, block_2 and so on."""

    def __init__(self, channels, config, form):
        super().__init__()
        for i in range(config["blocks"] if form["middle_as_levels"] else 2):
            self.add_module(f"block_{i + 1}", ResBlock(channels, channels, form))
            if i == 0 and config["mid_attention"]:
                self.attn_1 = Attention(channels)


def halve(halving, level, x):
    if halving == "means":
        return F.avg_pool2d(x, 2)
    return level.downsample(F.pad(x, (0, 1, 0, 1)) if halving == "padded_after" else x)


def double(doubling, level, x):
    if doubling == "nearest":
        return level.upsample(F.interpolate(x, scale_factor=2, mode="nearest"))
    return depth_to_space(level.upsample(x))


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


class Encoder(nn.Module):
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
        x = self.conv_in(x)
        for i, level in enumerate(self.down):
            x = level(x)
            if i < self.halvings:
                x = halve(self.halving, level, x)
        x = self.conv_out(F.silu(self.norm_out(self.mid(x))))
        return self.quant_conv(x) if hasattr(self, "quant_conv") else x


class Decoder(nn.Module):
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
        x = self.mid(self.conv_in(x))
        for i in reversed(range(len(self.up))):
            if hasattr(self, "adaptive"):
                x = self.adaptive[i](x, latents)
            x = self.up[i](x)
            if i >= self.first_doubling:
                x = double(self.doubling, self.up[i], x)
        x = self.conv_out(F.silu(self.norm_out(x)))
        for _ in range(self.haar):
            x = from_haar(x)
        return x


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
        codes = weights.get("quantizer.codebook")
        self.normalised = bool(config["quantizer"].get("normalise"))
        self.register_buffer("codebook", F.normalize(codes) if self.normalised else codes, persistent=False)  # [K, d]
        self.load_state_dict({name: value for name, value in weights.items() if not name.startswith("quantizer.")})

    def latents(self, images):
        """Images [B, 3, H, W] in [-1, 1] to latents [B, d, h, w]."""
        seen = (images + 1) / 2 if self.config["model"].get("range") == "unit" else images
        return self.encoder(to_opponent(seen) if self.config["model"]["colors"] == "opponent" else seen)

    def images(self, latents):
        """Latents [B, d, h, w], quantized ones or not, to images [B, 3, H, W] in [-1, 1]."""
        images = self.decoder(latents)
        images = from_opponent(images) if self.config["model"]["colors"] == "opponent" else images
        return images * 2 - 1 if self.config["model"].get("range") == "unit" else images

    @torch.no_grad()
    def encode(self, images):
        """Images [B, 3, H, W] in [-1, 1], of sides that the stride divides, to tokens [B, h, w]."""
        self.check_nearest()
        latents = self.latents(images).permute(0, 2, 3, 1)  # [B, h, w, d]
        rows, codes = latents.flatten(0, 2), self.codebook
        quantizer = self.config["quantizer"]
        if self.normalised or quantizer["type"] == "cvq" and quantizer["cvq"]["distance"] == "cosine":
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
