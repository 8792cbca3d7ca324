"""Reads tokens with the Python of docs/tokens.md, exactly as it stands there.

Run by ctest: run.sh read_tokens.py NSVQ, the program.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

RECIPE = """
threads: 1
data: {train: "builtin:dead-leaves?size=16&count=16", val: "builtin:dead-leaves?size=16&count=4&seed=1", size: 16}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 300, init: data}
schedule: {phases: [stage1]}
train: {epochs: 1, batch_size: 8}
"""


def blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def main(nsvq):
    docs = pathlib.Path(__file__).parents[2] / "docs" / "tokens.md"
    reader, _, hasher = blocks(docs.read_text())  # layouts.py runs that of scales
    assert len(reader.strip().splitlines()) == 3, "three lines"

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("recipe.yaml").write_text(RECIPE)
        rng = np.random.default_rng(0)
        names = ["cats/1.png", "cats/2.png", "dögs/3.png"]
        for name in names:
            path = pathlib.Path("photos") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
        for command in (["train", "recipe.yaml", "--run", "run"],
                        ["export", "run", "--out", "model.safetensors"],
                        ["tokenize", "run", "--data", "photos", "--out", "tokens"]):
            subprocess.run([nsvq, *command], check=True, capture_output=True)

        found = {}
        exec(reader, found)
        assert found["keys"] == names, found["keys"]
        assert found["classes"].tolist() == [0, 0, 1]
        tokens = found["tokens"]
        assert tokens.dtype == np.uint16 and tokens.shape == (3, 8, 8)
        assert tokens.max() < 300 and len(np.unique(tokens)) > 3

        manifest = json.loads(pathlib.Path("tokens/manifest.json").read_text())
        exec(hasher, found)
        assert manifest["model"]["sha256"] == found["sha256"]
        assert json.loads(pathlib.Path("model.json").read_text())["nsvq"]["sha256"] == found["sha256"]
        shard = manifest["shards"][0]
        data = pathlib.Path("tokens", shard["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == shard["sha256"] and len(data) == shard["bytes"]

        crops = subprocess.run([nsvq, "tokenize", "run", "--data", "photos", "--out", "crops", "--crops", "ten"],
                               check=True, capture_output=True, text=True).stdout
        assert "3 images of 10 times 8x8 tokens" in crops, crops
        exec(reader.replace("tokens/", "crops/"), found)
        manifest = json.loads(pathlib.Path("crops/manifest.json").read_text())
        assert found["tokens"].shape == (3, 10, 8, 8) and len(manifest["variants"]) == 10 and manifest["version"] == 2
        os.chdir("/")


main(sys.argv[1])
