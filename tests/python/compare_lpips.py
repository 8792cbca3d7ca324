"""Compares LPIPS with the official weights with the `lpips` package on pictures. Run by hand:

    nsvq weights get lpips-vgg && nsvq weights get lpips-alex
    python compare_lpips.py build/release/test_losses PICTURES.tar|FOLDER

needs torch, torchvision, numpy, pillow, safetensors and lpips==0.1.4. The package takes the networks
from nsvq's store (its own heads), a pair per distortion: noise, blur, JPEG, another picture.
"""

import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import warnings

import lpips
import numpy as np
import torch
from PIL import Image, ImageFilter
from safetensors.torch import load_file, save_file

STORED = {"vgg": "vgg16", "alex": "alexnet", "squeeze": "squeezenet1_1"}
COUNT = 4


def store():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("NSVQ_WEIGHTS") or pathlib.Path(cache) / "nsvq" / "weights")


def pictures(path):
    """The first pictures of a folder or tar, all of the first one's size."""
    if path.is_dir():
        files = [file.read_bytes() for file in sorted(path.iterdir()) if file.suffix in (".jpg", ".png")]
    else:
        with tarfile.open(path) as archive:
            members = [m for m in archive if m.name.endswith((".jpg", ".png"))]
            files = [archive.extractfile(member).read() for member in members[: COUNT + 1]]
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files[: COUNT + 1]]
    return [image.resize(images[0].size) for image in images]


def distorted(images):
    rng = np.random.default_rng(0)
    noise = np.asarray(images[0]) + rng.normal(0, 20, (images[0].height, images[0].width, 3))
    yield Image.fromarray(noise.clip(0, 255).astype(np.uint8))
    yield images[1].filter(ImageFilter.GaussianBlur(1.5))
    jpeg = io.BytesIO()
    images[2].save(jpeg, "JPEG", quality=15)
    yield Image.open(jpeg)
    yield images[4]


def to_tensor(images):
    pixels = np.stack([np.asarray(image) for image in images])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous() / 127.5 - 1


def package_distances(net, images, references):
    model = lpips.LPIPS(net=net, pnet_rand=True, verbose=False)
    weights = load_file(store() / f"{STORED[net]}.safetensors")
    for part in model.net.children():
        names = {"features." + name: name for name in part.state_dict()}
        part.load_state_dict({names[name]: weights[name] for name in names})
    with torch.no_grad():
        return model(images, references).flatten()


def main(test, path):
    warnings.simplefilter("ignore")
    images = pictures(pathlib.Path(path))
    tensors = {"references": to_tensor(images[:COUNT]), "images": to_tensor(list(distorted(images)))}
    for net, name in STORED.items():
        if (store() / f"{name}.safetensors").exists():
            tensors[net] = package_distances(net, tensors["images"], tensors["references"])
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "pictures.safetensors")
        save_file(tensors, file)
        environment = {**os.environ, "NSVQ_LPIPS_PICTURES": file}
        return subprocess.run([test, "--gtest_filter=OfficialLpips.*"], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
