"""A model of `nsvq export RUN --out model.safetensors` in PyTorch: photo.png to tokens, and back.

Run from the root of the repository, beside model.safetensors and model.json. For quantizers that
choose the nearest code of a codebook, such as nsvq and vq.
"""

import json, sys
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file
sys.path.insert(0, "tests/nn/golden")                  # the networks as PyTorch modules
from autoencoder import Autoencoder

config = json.load(open("model.json"))
weights = load_file("model.safetensors")
codebook = weights.pop("quantizer.codebook")           # [K, d]
model = Autoencoder(config["model"])
model.load_state_dict(weights)

def read(path, size):
    """An image as nsvq reads it, [1, 3, size, size] in [-1, 1]."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    short = min(image.size)
    width, height = (int(size * side / short) for side in image.size)  # the short side: size
    image = image.resize((width, height), Image.Resampling.BILINEAR)   # antialiased
    left, top = round((width - size) / 2), round((height - size) / 2)  # half to even
    image = image.crop((left, top, left + size, top + size))
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(size, size, 3)
    return pixels.permute(2, 0, 1)[None] / 127.5 - 1

def to_opponent(x): # what networks see with model.colors: opponent
    r, g, b = x.unbind(1)
    return torch.stack([(r + g + b) / 3, (r - b) * 1.5, (g - (r + b) / 2) * 4], 1)

def from_opponent(x):
    y, orange, green = x[:, 0], x[:, 1] / 3, x[:, 2] / 12
    return torch.stack([y - green + orange, y + 2 * green, y - green - orange], 1)

opponent = config["model"]["colors"] == "opponent"
with torch.no_grad():
    photo = read("photo.png", config["data"]["size"])
    photo = to_opponent(photo) if opponent else photo
    latents = model.encoder(photo).permute(0, 2, 3, 1)               # [1, h, w, d]
    distances = torch.cdist(latents.flatten(0, 2), codebook)
    tokens = distances.argmin(1).view(latents.shape[:3])             # [1, h, w]
    image = model.decoder(codebook[tokens].permute(0, 3, 1, 2))      # [1, 3, H, W]
    image = from_opponent(image) if opponent else image              # in [-1, 1]
