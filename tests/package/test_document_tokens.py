"""The Python of docs/python.md, sections Tokenizer, Tokens and Training, as it stands there."""

import pathlib
import re

import models
import pytest
from PIL import Image

from nsvq.program import run_program

ROOT = pathlib.Path(__file__).parents[2]
GENERATOR = """
data: {train: photos, val: photos, size: 32, flip: false}
generator: {family: masked, width: 16, depth: 1, heads: 2, classes: 2}
train: {epochs: 1, batch_size: 8, precision: fp32, samples: 1, samples_every: 9}
"""


def blocks(*sections):
    text = (ROOT / "docs" / "python.md").read_text()
    parts = {part.split("\n")[0]: part for part in text.split("\n## ")}
    parts[text.split("\n")[0].removeprefix("## ")] = text.split("\n## ")[0]
    fences = r"^```python\n(.*?)^```"
    return [block for section in sections for block in re.findall(fences, parts[section], re.DOTALL | re.MULTILINE)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models.write_photos("photos", models.draw_images(16))
    pathlib.Path("recipe.yaml").write_text(models.RECIPE)
    pathlib.Path("gen.yaml").write_text(GENERATOR)
    Image.open("photos/class-0/0.png").save("photo.jpg")
    run_program("train", "recipe.yaml", "train.steps=4", "--run", "runs/photos")
    run_program("tokenize", "runs/photos", "--data", "photos", "--out", "tokens")
    run_program("generate", "train", "gen.yaml", "tokenizer=runs/photos", "--run", "runs/gen")
    return tmp_path


def test_blocks(folder, capfd):
    found = {}
    for block in blocks("Tokenizer", "Tokens", "Training"):
        exec(compile(block, "docs/python.md", "exec"), found)
    assert found["tokens"].shape == (8, 8, 8) and found["picture"].shape == (1, 3, 32, 32)
    assert found["samples"].images.shape == (16, 3, 32, 32)
    assert found["item"].keys() == {"tokens", "class", "key"} and len(found["tars"]) == 1
    assert found["run"].config["quantizer"]["codes"] == 64
    assert capfd.readouterr().out.startswith("1 ")
