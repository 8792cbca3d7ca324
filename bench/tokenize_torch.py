"""The work of `nsvq tokenize` in eager PyTorch with a DataLoader: tokenize_torch.py MODEL SHARDS OUT [LIMIT]

MODEL is what `nsvq export` wrote; OUT gets the tokens as safetensors.
"""

import glob
import io
import json
import os
import pathlib
import sys
import tarfile

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "nn" / "golden"))
from autoencoder import Autoencoder


class Shards(torch.utils.data.Dataset):
    def __init__(self, paths, size):
        self.size, self.files, self.entries = size, {}, []
        for path in paths:
            with tarfile.open(path) as tar:
                self.entries += [(path, entry.offset_data, entry.size) for entry in tar
                                 if entry.isfile() and entry.name.lower().endswith((".jpg", ".jpeg", ".png"))]

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        path, offset, size = self.entries[index]
        if path not in self.files:
            self.files[path] = open(path, "rb")
        self.files[path].seek(offset)
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(self.files[path].read(size)))).convert("RGB")
        width, height = image.size
        scale = self.size / min(width, height)
        if scale != 1:
            image = image.resize((int(width * scale), int(height * scale)), Image.BILINEAR)
        left, top = round((image.width - self.size) / 2), round((image.height - self.size) / 2)
        image = image.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1


def main(model_path, shards, out, limit=None):
    config = json.loads(pathlib.Path(model_path).with_suffix(".json").read_text())
    weights = load_file(model_path)
    codebook = weights.pop("quantizer.codebook")
    model = Autoencoder(config["model"]).eval()
    model.load_state_dict(weights)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    data = Shards(sorted(glob.glob(shards)), config["data"]["size"])
    data.entries = data.entries[: int(limit) if limit else None]
    loader = torch.utils.data.DataLoader(data, config["train"]["batch_size"],
                                         num_workers=config["data"]["threads"], prefetch_factor=4)
    indices = []
    with torch.inference_mode():
        for images in loader:
            latents = model.encoder(images).permute(0, 2, 3, 1)
            flat = latents.reshape(-1, latents.shape[-1])
            distances = flat.square().sum(1, True) + codebook.square().sum(1) - 2 * flat @ codebook.T
            indices.append(distances.argmin(1).reshape(latents.shape[:3]))
    save_file({"tokens": torch.cat(indices)}, out)


main(*sys.argv[1:])
