"""nsvq.Tokenizer: the program's tokens of every quantizer and family of networks, and what it loads and saves."""

import json
import pathlib
import pickle
import re
import subprocess
import sys

import models
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import nsvq
import nsvq.pytorch_model as pytorch_model
from nsvq import _models
from nsvq.program import run_program

ROOT = pathlib.Path(__file__).parents[2]
DECODED = ("nsvq", "simvq normalised", "fvq", "fsq", "lfq", "var")  # one of each way from a token to its vector


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    models.write_photos(folder, models.draw_images())
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return models.make_model(tmp_path_factory.mktemp("model"), models.CASES["nsvq"])


def test_every_quantizer_of_the_registry_is_a_case():
    """A new member is missing here until it has a case, and the loader its rule."""
    registry = (ROOT / "nsvq" / "quantizers" / "registry.cpp").read_text()
    kinds = set(re.findall(r"(\w+)_kind\(\)", registry))
    assert kinds == set(models.KINDS) | {"none"} == set(pytorch_model.QUANTIZERS)


@pytest.mark.parametrize("case", models.CASES)
def test_tokens_are_those_of_the_program(case, photos, tmp_path):
    model = models.make_model(tmp_path, models.CASES[case])
    theirs = models.program_tokens(model, photos, tmp_path / "tokens")
    images = models.draw_images()
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    tokens = tokenizer.encode(images)
    assert tokens.dtype == torch.int64 and len(tokens.unique()) > 3
    assert np.array_equal(tokens.numpy(), theirs)

    codes = tokenizer.codebook
    assert codes.shape == (tokenizer.codes, tokenizer.config["model"]["latent_dim"]) and int(tokens.max()) < len(codes)
    again = tokenizer.decode(tokens)
    assert again.shape == images.shape
    if case in DECODED or case.startswith("family"):
        run_program("detokenize", model, "--tokens", tmp_path / "tokens", "--out", tmp_path / "decoded", "--device", "cpu")
        decoded = torch.stack([torch.from_numpy(np.array(Image.open(path)))
                               for path in sorted((tmp_path / "decoded").rglob("*.png"))]).permute(0, 3, 1, 2)
        assert (((again + 1) * 127.5).clamp(0, 255) - decoded).abs().max() < 0.51

    plain = pytorch_model.Tokenizer(tokenizer.config, load_file(model))  # the file that exports write: near ties aside
    assert (plain.encode(pytorch_model.from_bytes(images)) == tokens).double().mean() > 0.98
    assert torch.allclose(plain.decode(tokens), again, atol=1e-4)


def test_images_of_any_size_and_type(model):
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    images = models.draw_images(3, 48)[:, :, :32]
    tokens = tokenizer.encode(images)
    assert tokens.shape == (3, 8, 12) and tokenizer.stride == 4
    floats = (images.double() / 127.5 - 1).float()
    assert torch.equal(tokens, tokenizer.encode(floats))
    assert torch.equal(tokens, tokenizer.encode(images.contiguous(memory_format=torch.channels_last)))
    assert torch.equal(tokenizer(images), tokenizer.decode(tokens.to(torch.uint16)))
    assert tokenizer.latents(floats).requires_grad and not tokenizer.encode(floats).requires_grad
    wide = nsvq.Tokenizer.from_pretrained(model).double()
    assert wide.latents(images).dtype == torch.float64 and (wide.encode(images) == tokens).double().mean() > 0.98
    tokenizer.precision = "bf16"
    assert tokenizer.latents(images).dtype == torch.float32 and (tokenizer.encode(images) == tokens).double().mean() > 0.5


@pytest.mark.parametrize("what, message", [
    (torch.zeros(3, 32, 32), r"images must be a tensor \[B, 3, H, W\], but it is \[3, 32, 32\]"),
    (torch.zeros(1, 3, 30, 32), "images must have sides that are multiples of 4"),
    (torch.zeros(1, 3, 32, 32, dtype=torch.int32), "images must be uint8, or floats"),
    (torch.full((1, 3, 32, 32), torch.nan), "images have latents that are not finite"),
])
def test_images_that_cannot_be_encoded(model, what, message):
    with pytest.raises(ValueError, match=message):
        nsvq.Tokenizer.from_pretrained(model).encode(what)


def test_tokens_that_cannot_be_decoded(model):
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    with pytest.raises(ValueError, match="tokens must be from 0 to 63, but they go from 0 to 64"):
        tokenizer.decode(torch.tensor([[[0, 64]]]))
    with pytest.raises(ValueError, match=r"tokens must be integers \[B, h, w\]"):
        tokenizer.decode(torch.zeros(4, 4, dtype=torch.int64))


def test_continuous(tmp_path):
    tokenizer = nsvq.Tokenizer.from_pretrained(models.make_model(tmp_path, ["quantizer.type=none"]))
    images = models.draw_images(2)
    assert tokenizer(images).shape == images.shape and tokenizer.codes == 0
    with pytest.raises(ValueError, match="has no tokens"):
        tokenizer.encode(images)


def test_reads_pictures_as_the_program(model, tmp_path):
    picture = np.kron(np.random.default_rng(0).integers(0, 256, (10, 15, 3), dtype=np.uint8), np.ones((5, 5, 1), np.uint8))
    Image.fromarray(picture).save(tmp_path / "photo.png")  # 75 x 50: the short side shrinks, and an odd rest is cropped
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    theirs = models.program_tokens(model, tmp_path / "photo.png", tmp_path / "tokens")
    assert np.array_equal(tokenizer.encode(tokenizer.read(tmp_path / "photo.png")).numpy(), theirs)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two epochs, with a checkpoint each."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "recipe.yaml").write_text(models.RECIPE)
    run_program("train", folder / "recipe.yaml", "train.epochs=2", "checkpoint.every_steps=4", "checkpoint.keep_best=psnr",
                "--run", folder / "run")
    run_program("export", folder / "run", "--as", "huggingface", "--out", folder / "exported")
    run_program("export", folder / "run", "--out", folder / "photos.safetensors")
    return folder


def test_what_a_name_may_be(run, monkeypatch, tmp_path):
    newest = _models.checkpoints_of(run / "run")[0]
    images = models.draw_images(2)
    expected = nsvq.Tokenizer.from_pretrained(run / "run")
    tokens = expected.encode(images)
    for name in (newest, newest / "model.safetensors", run / "exported", run / "photos.safetensors"):
        assert torch.equal(nsvq.Tokenizer.from_pretrained(name).encode(images), tokens), name
    best = nsvq.Tokenizer.from_pretrained(run / "run" / "checkpoints" / "best")
    assert best.codes == 64
    assert expected.sha256 == json.loads((run / "exported" / "config.json").read_text())["nsvq"]["sha256"]
    snapshot = tmp_path / "hub" / "models--photos--tiny" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(run / "exported")
    reference = tmp_path / "hub" / "models--photos--tiny" / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for revision in ("main", "abc"):
        assert torch.equal(nsvq.Tokenizer.from_pretrained("photos/tiny", revision=revision).encode(images), tokens)
    with pytest.raises(ValueError, match="photos/other: no such run or file, and Hugging Face's cache does not have it"):
        nsvq.Tokenizer.from_pretrained("photos/other")


def test_damaged_models(run, tmp_path):
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", run / "run", copy], check=True)
    newest, before = _models.checkpoints_of(copy)[:2]
    expected = nsvq.Tokenizer.from_pretrained(before).sha256
    file = newest / "model.safetensors"
    contents = bytearray(file.read_bytes())
    contents[-1] ^= 1
    file.write_bytes(contents)
    with pytest.warns(UserWarning, match="damaged.*the checkpoint before it is tried"):
        assert nsvq.Tokenizer.from_pretrained(copy).sha256 == expected
    with pytest.raises(ValueError, match="model.safetensors: damaged"):
        nsvq.Tokenizer.from_pretrained(newest)
    file.write_bytes(contents[:100])
    with pytest.raises(ValueError, match="no safetensors file, or cut short"):
        nsvq.Tokenizer.from_pretrained(newest)
    with pytest.raises(ValueError, match="no such run, checkpoint or model file"):
        nsvq.Tokenizer.from_pretrained(tmp_path / "nothing")
    with pytest.raises(ValueError, match="holds neither checkpoints/step-N/ nor model.safetensors"):
        nsvq.Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("stored", ["format-0", "format-1", "format-1-cvq"])
def test_models_of_earlier_versions(stored, tmp_path):
    images = models.draw_images(6, 16)
    models.write_photos(tmp_path / "photos", images)
    model = ROOT / "tests" / "tokenizer" / "stored" / stored
    theirs = models.program_tokens(model, tmp_path / "photos", tmp_path / "tokens")
    assert np.array_equal(nsvq.Tokenizer.from_pretrained(model).encode(images).numpy(), theirs)


def test_saved_models_are_the_programs_too(model, photos, tmp_path):
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    with torch.no_grad():
        tokenizer.encoder.conv_out.bias += 0.1
    tokenizer.save_pretrained(tmp_path / "saved")
    images = models.draw_images()
    tokens = tokenizer.encode(images)
    again = nsvq.Tokenizer.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.encode(images), tokens) and again.sha256 == tokenizer.sha256
    assert np.array_equal(models.program_tokens(tmp_path / "saved", photos, tmp_path / "tokens"), tokens.numpy())
    printed = subprocess.run([sys.executable, "-c", "import load_model; print(load_model.load().quantizer.count)"],
                             cwd=tmp_path / "saved", capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "64"
    assert torch.equal(pickle.loads(pickle.dumps(tokenizer)).encode(images), tokens)


def test_weights_load_strictly(model):
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    weights = load_file(model)
    assert tokenizer.state_dict().keys() == weights.keys()
    assert isinstance(tokenizer, torch.nn.Module) and not tokenizer.training
    del weights["quantizer.codebook"]
    with pytest.raises(RuntimeError, match="quantizer.codebook"):
        nsvq.Tokenizer(tokenizer.config, weights)


def test_pushed_by_huggingface_hub(model, monkeypatch, tmp_path):
    """The real package, with its calls of the network replaced."""
    hub_mixin = pytest.importorskip("huggingface_hub.hub_mixin")
    pushed = {}

    class Api:
        def __init__(self, **_):
            pass

        def create_repo(self, repo_id, **_):
            return type("Repository", (), {"repo_id": repo_id})

        def upload_folder(self, *, repo_id, folder_path, **_):
            pushed.update({path.name: path.read_bytes() for path in pathlib.Path(folder_path).iterdir()}, repo_id=repo_id)

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    tokenizer = nsvq.Tokenizer.from_pretrained(model)
    assert isinstance(tokenizer, hub_mixin.ModelHubMixin)
    tokenizer.push_to_hub("photos/tiny")
    assert pushed.pop("repo_id") == "photos/tiny"
    assert pushed.keys() == {"model.safetensors", "config.json", "load_model.py", "README.md"}
    assert json.loads(pushed["config.json"]) == tokenizer.config and b"library_name: nsvq" in pushed["README.md"]
    (tmp_path / "model.safetensors").write_bytes(pushed["model.safetensors"])
    assert nsvq.Tokenizer.from_pretrained(tmp_path).sha256 == tokenizer.sha256


def test_without_huggingface_hub(model, tmp_path):
    code = ("import sys; sys.modules['huggingface_hub'] = None\n"
            "import nsvq\n"
            f"tokenizer = nsvq.Tokenizer.from_pretrained({str(model)!r})\n"
            f"tokenizer.save_pretrained({str(tmp_path / 'saved')!r})\n"
            "tokenizer.push_to_hub('photos/tiny')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    line = done.stderr.strip().splitlines()[-1]
    assert line == "ImportError: nsvq: push_to_hub needs huggingface_hub; install it by `pip install huggingface_hub`"
    assert (tmp_path / "saved" / "README.md").exists()
