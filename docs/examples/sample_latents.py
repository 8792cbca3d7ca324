"""Samples of an export of `nsvq diffusion export RUN --out model/` in PyTorch, by DDIM.

Run from the root of the repository, beside model/. For tokenizers that choose the nearest code of a
codebook, such as nsvq, with model.colors: rgb and model.range: symmetric.
"""

import json, sys, torch
from safetensors.torch import load_file
sys.path.insert(0, "tests/nn/golden")  # of this repository: the networks in PyTorch
from autoencoder import Autoencoder
from unet import Unet

config = json.load(open("model/config.json"))
tensors = load_file("model/model.safetensors")
unet = Unet(config["unet"], config["nsvq"]["channels"], config["nsvq"]["labels"])
unet.load_state_dict({k[5:]: v for k, v in tensors.items() if k.startswith("unet.")})

settings = json.load(open("model/tokenizer/config.json"))
weights = load_file("model/tokenizer/model.safetensors")
codebook = weights.pop("quantizer.codebook")           # [K, d], of a nearest-code quantizer as nsvq
tokenizer = Autoencoder(settings["model"])
tokenizer.load_state_dict(weights)

diffusion, steps = config["diffusion"], 50
power = {"linear": 1, "sqrt-linear": 0.5}[diffusion["schedule"]]
first, last, count = diffusion["beta_start"], diffusion["beta_end"], diffusion["times"]
betas = torch.linspace(first**power, last**power, count, dtype=torch.float64) ** (1 / power)
abar = (1 - betas).cumprod(0).tolist()
times = [(i + 1) * count // steps - 1 for i in reversed(range(steps))]    # trailing
side = config["data"]["size"] >> (len(settings["model"]["multipliers"]) - 1)
x = torch.randn(4, config["nsvq"]["channels"], side, side)
with torch.no_grad():
    for time, following in zip(times, times[1:] + [None]):                # DDIM, eta 0
        a, b = abar[time], 1 if following is None else abar[following]
        # With classes also their numbers; number diffusion.classes is "no class".
        out = unet(x, torch.full((len(x),), time))
        if diffusion["prediction"] == "v":
            x0, eps = a**0.5 * x - (1 - a) ** 0.5 * out, (1 - a) ** 0.5 * x + a**0.5 * out
        else:
            x0, eps = (x - (1 - a) ** 0.5 * out) / a**0.5, out
        x = b**0.5 * x0 + (1 - b) ** 0.5 * eps
    latents = x.permute(0, 2, 3, 1) * tensors["latent_deviation"] + tensors["latent_mean"]
    tokens = torch.cdist(latents.flatten(0, 2), codebook).argmin(1).view(latents.shape[:3])
    images = tokenizer.decoder(codebook[tokens].permute(0, 3, 1, 2))  # [4, 3, H, W] in [-1, 1]
