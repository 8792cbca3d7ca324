"""The load_model.py of an export gives nsvq's tokens and picture in PyTorch, and the model's sha256 is as described.
tests/package/test_tokenizer.py has every quantizer.

Run by ctest: run.sh load_snippet.py NSVQ, the program.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = """
data: {train: "builtin:dead-leaves?size=32&count=32", val: "builtin:dead-leaves?size=32&count=4&seed=1", size: 32}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 64}
optimizer: {lr: 1e-3, ema_decay: 0.9}
schedule: {freeze: epoch, freeze_epoch: 1, warmup_epochs: 1}
train: {epochs: 2, batch_size: 8, precision: fp32}
"""


def contents_sha256(path):
    """The sha256 of a model file's contents, and the one that its metadata hold (docs/runs.md)."""
    tensors = load_file(path)
    with safe_open(path, "np") as file:
        metadata = file.metadata()
        dtype = {name: file.get_slice(name).get_dtype() for name in tensors}  # "F32"
    digest = hashlib.sha256()
    for name in sorted(tensors):
        shape = ",".join(map(str, tensors[name].shape))
        digest.update(f"{name}\0{dtype[name]}\0{shape}\0".encode() + tensors[name].tobytes())
    stored = metadata.pop("nsvq.contents_sha256")
    digest.update("".join(f"{key}\0{metadata[key]}\0" for key in sorted(metadata)).encode())
    return digest.hexdigest(), stored


def load_exported(name):
    """The module of `name`.py in the present folder, which imports nothing of the tree."""
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(nsvq, *settings):
    run = lambda *words: subprocess.run([nsvq, *words], check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("recipe.yaml").write_text(RECIPE)
        rng = np.random.default_rng(0)
        colours = np.kron(rng.integers(0, 256, (10, 15, 3), dtype=np.uint8), np.ones((5, 5, 1), np.uint8))
        Image.fromarray(colours).save("photo.png")     # 75 x 50: the short side shrinks, and an odd rest is cropped
        run("train", "recipe.yaml", *settings, "--run", "run")
        run("export", "run", "--out", "model.safetensors")

        tokenizer = load_exported("load_model").load()
        image = tokenizer.read("photo.png")
        run("tokenize", "run", "--data", "photo.png", "--out", "tokens")
        run("reconstruct", "run", "--data", "photo.png", "--out", "pictures")
        tokens = tokenizer.encode(image)
        ours = load_file("tokens/tokens-00000.safetensors")["tokens"].astype(int)
        theirs = tokens.numpy()
        assert ours.shape == theirs.shape and len(np.unique(theirs)) > 1
        assert (ours == theirs).mean() > 0.98, "near ties may go another way"
        picture = np.asarray(Image.open("pictures/photo.png")).astype(int)
        decoded = ((tokenizer.decode(tokens)[0].permute(1, 2, 0) + 1) * 127.5).clamp(0, 255).round().numpy()
        difference = np.abs(picture - decoded)
        print(f"{settings}: largest difference {difference.max()} of 255")
        assert (difference <= 1).mean() > 0.9

        # The file as a program.
        printed = subprocess.run([sys.executable, "-B", "load_model.py", "photo.png"], check=True, capture_output=True)
        assert json.loads(printed.stdout) == theirs[0].tolist()
        difference = np.abs(np.asarray(Image.open("photo-decoded.png")).astype(int) - decoded)
        assert difference.max() <= 1

        computed, stored = contents_sha256("model.safetensors")
        assert computed == stored
        os.chdir(ROOT)


def main(nsvq):
    check(nsvq)
    check(nsvq, "model.colors=opponent")
    check(nsvq, "model.family=taming", "model.z_channels=6", "model.latent_kernel=3", "model.attention=[1]")
    check(nsvq, "model.family=maskgit", "model.range=unit")
    check(nsvq, "quantizer.type=cvq")
    check(nsvq, "quantizer.type=vq", "quantizer.normalise=true")
    check(nsvq, "quantizer.type=ibq")
    check(nsvq, "quantizer.type=fsq", "model.latent_dim=3", "quantizer.fsq.levels=[5, 4, 3]")
    check(nsvq, "quantizer.type=simvq", "quantizer.normalise=true")


main(*sys.argv[1:])
