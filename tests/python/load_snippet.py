"""Runs the Python of docs/runs.md: a model in PyTorch gives nsvq's tokens and picture, and its sha256 is as described.

Run by ctest: run.sh load_snippet.py NSVQ, the program.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
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


def snippet(holding):
    """The block of Python in docs/runs.md that holds a text."""
    blocks = (ROOT / "docs" / "runs.md").read_text().split("```python\n")[1:]
    found = [block.split("```")[0] for block in blocks if holding in block.split("```")[0]]
    assert len(found) == 1, f"{len(found)} blocks hold {holding}"
    return found[0]


def check(nsvq, colors):
    run = lambda *words: subprocess.run([nsvq, *words], check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("recipe.yaml").write_text(RECIPE)
        rng = np.random.default_rng(0)
        colours = np.kron(rng.integers(0, 256, (10, 15, 3), dtype=np.uint8), np.ones((5, 5, 1), np.uint8))
        Image.fromarray(colours).save("photo.png")     # 75 x 50: the short side shrinks, and an odd rest is cropped
        run("train", "recipe.yaml", f"model.colors={colors}", "--run", "run")
        run("export", "run", "--out", "model.safetensors")
        run("tokenize", "run", "--data", "photo.png", "--out", "tokens")
        run("reconstruct", "run", "--data", "photo.png", "--out", "pictures")

        names = {}
        exec(snippet("Autoencoder").replace('"tests/nn/golden"', repr(str(ROOT / "tests" / "nn" / "golden"))), names)
        ours = load_file("tokens/tokens-00000.safetensors")["tokens"].astype(int)
        theirs = names["tokens"].numpy()
        assert ours.shape == theirs.shape and len(np.unique(theirs)) > 1
        assert (ours == theirs).mean() > 0.98, "near ties may go another way"
        picture = np.asarray(Image.open("pictures/photo.png")).astype(int)
        decoded = ((names["image"][0].permute(1, 2, 0) + 1) * 127.5).clamp(0, 255).round().numpy()
        difference = np.abs(picture - decoded)
        print(f"largest difference {difference.max()} of 255")
        assert (difference <= 1).mean() > 0.9

        exec(snippet("nsvq.contents_sha256"), {"path": "model.safetensors"})
        os.chdir(ROOT)


for colors in ["rgb", "opponent"]:
    check(sys.argv[1], colors)
