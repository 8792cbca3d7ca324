"""nsvq.Generator: images and tokens of a trained generator."""

import models
import numpy as np
import pytest
import torch

import nsvq
from nsvq.program import run_program

SETTINGS = """
data: {train: "PHOTOS", val: "PHOTOS", size: 32, flip: false}
generator: {family: masked, width: 16, depth: 1, heads: 2, classes: 2}
train: {epochs: 1, batch_size: 8, precision: fp32, samples: 1, samples_every: 9}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generator")
    models.write_photos(folder / "photos", models.draw_images(16))
    models.make_model(folder, models.CASES["nsvq"])
    (folder / "gen.yaml").write_text(SETTINGS.replace("PHOTOS", str(folder / "photos")))
    run_program("generate", "train", folder / "gen.yaml", f"tokenizer={folder / 'model.safetensors'}", "--run", folder / "gen")
    run_program("generate", "export", folder / "gen", "--out", folder / "exported")
    return folder / "gen"


def test_samples(run, tmp_path):
    generator = nsvq.Generator.from_pretrained(run)
    assert generator.codes == 64 and generator.grid == (8, 8) and generator.classes == 2
    samples = generator.sample(5, seed=3, steps=4)
    assert samples.images.shape == (5, 3, 32, 32) and samples.tokens.shape == (5, 8, 8)
    assert samples.classes.tolist() == [0, 1, 0, 1, 0]
    run_program("generate", "sample", run, "--count", "5", "--seed", "3", "--steps", "4", "--device", "cpu",
                "--out", tmp_path / "tokens.npy")
    assert np.array_equal(samples.tokens.numpy(), np.load(tmp_path / "tokens.npy"))
    assert torch.equal(samples.images, generator.tokenizer.decode(samples.tokens))
    exported = nsvq.Generator.from_pretrained(run.parent / "exported").sample(5, seed=3, steps=4)
    assert torch.equal(exported.tokens, samples.tokens)


def test_classes_and_guidance(run):
    generator = nsvq.Generator.from_pretrained(run)
    ones = generator.sample(4, classes=1, guidance=3.0, seed=1, steps=4)
    mixed = generator.sample(4, classes=[0, 1, 1, 0], guidance=3.0, seed=1, steps=4)
    assert ones.classes.tolist() == [1] * 4 and mixed.classes.tolist() == [0, 1, 1, 0]
    assert torch.equal(mixed.tokens[1:3], ones.tokens[1:3]), "an image depends on seed, number and class alone"


@pytest.mark.parametrize("arguments, message", [
    ({"count": 0}, "count must be at least 1"),
    ({"count": 2, "classes": 2}, r"classes must be from 0 to 1, but they are \[2\]"),
    ({"count": 2, "classes": [0]}, "classes: 1 of them for 2 images"),
    ({"count": 1, "temperature": -1}, "temperature"),
])
def test_what_cannot_be_sampled(run, arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        nsvq.Generator.from_pretrained(run).sample(**arguments)
    assert "\n" not in str(error.value)


def test_what_cannot_be_opened(run, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="no generator of tokens of nsvq's but a tokenizer"):
        nsvq.Generator.from_pretrained(run.parent / "model.safetensors")
    monkeypatch.setenv("NSVQ_PROGRAM", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="is no program; point it at nsvq or unset it"):
        nsvq.Generator.from_pretrained(run)
