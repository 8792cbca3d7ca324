"""Small models of every quantizer and family of networks, with random weights, and what the program makes of images by them."""

import functools
import pathlib
import re
import tempfile

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file

import nsvq.pytorch_model as pytorch_model
from nsvq import _models, _safetensors, _settings
from nsvq.program import run_program

RECIPE = """
data: {train: "builtin:dead-leaves?size=32&count=32", val: "builtin:dead-leaves?size=32&count=4&seed=1", size: 32}
model: {width: 8, multipliers: [1, 2, 2], blocks: 1, latent_dim: 6}
quantizer: {codes: 64}
schedule: {phases: [stage1]}
train: {epochs: 1, batch_size: 8, precision: fp32}
"""

# Settings of a model of each kind, beside RECIPE's; the kinds are those of nsvq/quantizers/registry.cpp.
KINDS = {
    "vq": [], "ema": [], "factorised": [], "simvq": [], "nsvq": [], "jukebox": [], "soundstream": [], "sqvae": [], "gumbel": [],
    "ibq": [],
    "fsq": ["quantizer.fsq.levels=[4, 3, 5, 2, 3, 2]"],
    "lfq": ["quantizer.lfq.bits=6"],
    "vqgan_lc": ["quantizer.features.dim=9", "quantizer.features.file=none.safetensors"],
    "fvq": ["quantizer.codes=36", "quantizer.bridge.patch=2", "quantizer.bridge.width=8", "quantizer.bridge.heads=2"],
    "simvq_ns": ["quantizer.tau_of_nearest=0.5"],
    "affine": ["quantizer.affine.rate=0.5"],
    "cvq": [],
    "var": ["quantizer.var.scales=[1, 2, 3, 5, 8]"],
}
VARIANTS = {
    "vq normalised": ["quantizer.type=vq", "quantizer.normalise=true"],
    "simvq normalised": ["quantizer.type=simvq", "quantizer.normalise=true"],
    "cvq by distance": ["quantizer.type=cvq", "quantizer.cvq.distance=l2"],
    "affine running": ["quantizer.type=affine", "quantizer.affine.variant=running"],
    "fvq vit": ["quantizer.type=fvq", *KINDS["fvq"], "quantizer.bridge.variant=vit"],
    "nsvq relative": ["quantizer.type=nsvq", "quantizer.tau_of_nearest=0.5", "quantizer.rotation=true"],
}
FAMILIES = {
    "taming": ["model.z_channels=12", "model.latent_kernel=3", "model.attention=[2]", "model.mid_attention=true"],
    "maskgit": ["model.range=unit", "model.blocks=2"],
    "maskbit": [],
    "magvit2": ["model.mid_attention=true", "model.blocks=2"],
    "nsvq": ["model.colors=opponent", "model.haar=1", "model.attention=[1]"],
}
CASES = {**{kind: [f"quantizer.type={kind}", *settings] for kind, settings in KINDS.items()}, **VARIANTS,
         **{f"family {family}": ["quantizer.type=vq", f"model.family={family}", *settings]
            for family, settings in FAMILIES.items()}}


@functools.cache
def base_settings():
    """All settings of RECIPE as the program writes them."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "recipe.yaml").write_text(RECIPE)
        return run_program("config", pathlib.Path(folder) / "recipe.yaml")


def with_settings(text, settings):
    """Settings as the program writes them, with others: it has no recipe of a quantizer that it does not train."""
    for setting in settings:
        key, value = setting.split("=")
        section, name = key.rsplit(".", 1)
        text, found = re.subn(rf"(^{section}:\n(?:  .*\n)*?  {name}: ).*", rf"\g<1>{value}", text, flags=re.MULTILINE)
        assert found == 1, f"{setting} is no setting"
    return text


def make_model(folder, settings):
    """model.safetensors of random weights for RECIPE with settings, as the program writes models."""
    text = with_settings(base_settings(), settings)
    config = _settings.parse_settings(text, "settings")
    model = pytorch_model.Autoencoder(config["model"])
    kind = config["quantizer"]["type"]
    model.quantizer = pytorch_model.QUANTIZERS[kind](config["quantizer"], config["model"]["latent_dim"])
    weights = draw_weights(model, torch.Generator().manual_seed(0))
    settle(weights, config["quantizer"])
    model.load_state_dict(weights)
    spread_latents(model)
    path = pathlib.Path(folder) / "model.safetensors"
    _safetensors.write(path, model.state_dict(), {"format": "pt", "nsvq.format": str(_models.LAST_FORMAT),
                                                  "nsvq.version": "test", "nsvq.config": text})
    return path


def draw_weights(model, generator):
    weights = {}
    for name, tensor in model.state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if tensor.dim() > 1 and not name.endswith(("codebook", "embedding", "features")):
            drawn /= tensor[0].numel() ** 0.5
        elif "norm" in name and name.endswith("weight"):
            drawn = 1 + drawn / 4
        weights[name] = drawn
    return weights


def settle(weights, quantizer):
    """What cannot be drawn at random."""
    if quantizer["type"] == "fsq":
        weights["quantizer.levels"] = torch.tensor(quantizer["fsq"]["levels"], dtype=torch.float32).view(-1, 1, 1)
    if "quantizer.statistics" in weights:
        weights["quantizer.statistics"] = weights["quantizer.statistics"].abs() + 0.5
        weights["quantizer.started"] = torch.ones(1)


@torch.no_grad()
def spread_latents(model):
    """Gives each channel of the latents mean 0 and deviation 1, so that many codes are chosen."""
    last = getattr(model.encoder, "quant_conv", model.encoder.conv_out)
    latents = model.encoder(pytorch_model.from_bytes(draw_images()))
    mean, deviation = latents.mean((0, 2, 3)), latents.std((0, 2, 3))
    last.weight /= deviation.view(-1, 1, 1, 1)
    last.bias.sub_(mean).div_(deviation)


def draw_images(count=6, side=32):
    """Images [count, 3, side, side] uint8 of smooth colours with noise."""
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    noisy = smooth + 0.1 * torch.randn(smooth.shape, generator=generator)
    return (noisy.clamp(0, 1) * 255).round().to(torch.uint8)


def write_photos(folder, images, classes=2):
    """Images as files, in folders that are classes."""
    for number, image in enumerate(images):
        path = pathlib.Path(folder) / f"class-{number * classes // len(images)}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(path)


def program_tokens(model, photos, out, *options):
    """The program's tokens of photos, int64 numpy."""
    run_program("tokenize", model, "--data", photos, "--out", out, "--device", "cpu", *options)
    return load_file(pathlib.Path(out) / "tokens-00000.safetensors")["tokens"].astype(np.int64)
