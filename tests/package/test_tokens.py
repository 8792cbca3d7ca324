"""nsvq.TokenDataset: what it reads, shares out and writes."""

import io
import json
import pickle
import shutil
import tarfile

import models
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import nsvq
from nsvq.program import run_program

IMAGES = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Tokens of 20 images in shards of 8, their ten crops, and those of a model of several scales."""
    folder = tmp_path_factory.mktemp("tokens")
    models.write_photos(folder / "photos", models.draw_images(IMAGES))
    (folder / "var").mkdir()
    model, scales = models.make_model(folder, models.CASES["nsvq"]), models.make_model(folder / "var", models.CASES["var"])
    models.program_tokens(model, folder / "photos", folder / "plain", "--shard-size", "8")
    models.program_tokens(model, folder / "photos", folder / "crops", "--crops", "ten")
    models.program_tokens(scales, folder / "photos", folder / "scales")
    return folder


def test_items(made):
    data = nsvq.TokenDataset(made / "plain", verify=True)
    assert len(data) == IMAGES and data.shape == data.grid == (8, 8) and data.codes == 64 and data.groups == 1
    tokenizer = nsvq.Tokenizer.from_pretrained(made / "model.safetensors")
    assert data.model_sha256 == tokenizer.sha256
    assert data.class_names == ["class-0", "class-1"]
    images = models.draw_images(IMAGES)
    for index in (0, 7, 8, 19, -1):
        item = data[index]
        place = int(item["key"].split("/")[1].removesuffix(".png"))  # names are sorted as texts: 0, 1, 10, 11, ...
        assert item["class"] == place // 10 == int(data.classes[index]) and item["key"] == data.keys[index]
        assert item["tokens"].dtype == torch.int64
        batch = tokenizer.encode(images[place:place + 1])[0]
        assert (item["tokens"] == batch).double().mean() > 0.98  # a batch of one may round differently
    with pytest.raises(IndexError):
        data[IMAGES]
    shard = data._shard(0)
    assert isinstance(shard.tokens.base, np.memmap) and not shard.tokens.flags.owndata
    assert nsvq.TokenDataset(made / "plain", transform=lambda item: item["class"])[0] == 0


def test_crops(made):
    central, all_of_them = nsvq.TokenDataset(made / "crops"), nsvq.TokenDataset(made / "crops", variant="all")
    assert all_of_them.shape == (10, 8, 8) and central.shape == (8, 8) and len(central.variants) == 10
    number = [name.startswith("center") for name in central.variants].index(True)
    tokens = all_of_them[3]["tokens"]
    assert torch.equal(central[3]["tokens"], tokens[number])
    for variant in (7, central.variants[7]):
        assert torch.equal(nsvq.TokenDataset(made / "crops", variant=variant)[3]["tokens"], tokens[7])
    drawn = nsvq.TokenDataset(made / "crops", variant="random")
    torch.manual_seed(0)
    assert len({drawn[3]["tokens"].numpy().tobytes() for _ in range(30)}) > 3
    with pytest.raises(ValueError, match='variant: "?\'?top\'?"? is none of .*"center", "random" and "all"'):
        nsvq.TokenDataset(made / "crops", variant="top")


def test_scales(made):
    data = nsvq.TokenDataset(made / "scales")
    assert data.grids == [(1, 1), (2, 2), (3, 3), (5, 5), (8, 8)] and data.shape == (103,)
    parts = data.scales(data[0]["tokens"])
    assert [tuple(part.shape) for part in parts] == data.grids
    assert torch.equal(torch.cat([part.flatten() for part in parts]), data[0]["tokens"])


def test_map_style_with_workers(made):
    loader = DataLoader(nsvq.TokenDataset(made / "plain"), batch_size=6, num_workers=2)
    keys = [key for batch in loader for key in batch["key"]]
    assert keys == nsvq.TokenDataset(made / "plain").keys
    data = nsvq.TokenDataset(made / "plain")
    data[0]
    assert len(pickle.dumps(data)) < 20000  # no shard travels


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("even", [False, True])
def test_stream_is_shared_out(made, monkeypatch, workers, even):
    data, ranks = nsvq.TokenDataset(made / "plain"), 3
    found = []
    for rank in range(ranks):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        stream = data.stream(shuffle=True, seed=5, even=even)
        found.append([key for batch in DataLoader(stream, batch_size=4, num_workers=workers) for key in batch["key"]])
    keys = [key for part in found for key in part]
    consumers = ranks * max(1, workers)
    assert len(set(keys)) == len(keys) == (IMAGES // consumers * consumers if even else IMAGES)
    if even:
        assert len({len(part) for part in found}) == 1


def test_order_of_epochs(made):
    data = nsvq.TokenDataset(made / "plain")
    assert [item["key"] for item in data.stream()] == data.keys
    stream = data.stream(shuffle=True, seed=1)
    first, second = ([item["key"] for item in stream] for _ in range(2))
    assert first != second and sorted(first) == sorted(second) == sorted(data.keys)
    stream.set_epoch(0)
    assert [item["key"] for item in stream] == first
    assert [item["key"] for item in data.stream(shuffle=True, seed=2)] != first


def damage(folder, name, change):
    contents = bytearray((folder / name).read_bytes())
    change(contents)
    (folder / name).write_bytes(contents)


def test_damaged_folders(made, tmp_path):
    shutil.copytree(made / "plain", tmp_path / "plain")
    folder = tmp_path / "plain"
    damage(folder, "tokens-00001.safetensors", lambda contents: contents.__setitem__(-1, contents[-1] ^ 1))
    nsvq.TokenDataset(folder)
    with pytest.raises(ValueError, match="tokens-00001.safetensors: damaged: its sha256"):
        nsvq.TokenDataset(folder, verify=True)
    damage(folder, "tokens-00001.safetensors", lambda contents: contents.pop())
    with pytest.raises(ValueError, match="tokens-00001.safetensors: has .* bytes where the manifest says"):
        nsvq.TokenDataset(folder)
    (folder / "tokens-00001.safetensors").unlink()
    with pytest.raises(ValueError, match="tokens-00001.safetensors: is missing"):
        nsvq.TokenDataset(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    with pytest.raises(ValueError, match="is incomplete; the `nsvq tokenize` that began it"):
        nsvq.TokenDataset(folder)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": 9}))
    with pytest.raises(ValueError, match="version 9; this package reads nsvq-tokens, versions 1 and 2"):
        nsvq.TokenDataset(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="manifest.json: cannot be read"):
        nsvq.TokenDataset(folder)
    with pytest.raises(ValueError, match="holds no manifest.json; is it a folder of `nsvq tokenize`"):
        nsvq.TokenDataset(made / "photos")


def test_groups(made, tmp_path):
    """No model here makes groups of tokens: a folder as docs/tokens.md describes them."""
    from nsvq import _safetensors
    tokens = torch.arange(3 * 2 * 4 * 4).remainder(64).to(torch.uint8).view(3, 2, 4, 4)
    keys = torch.frombuffer(bytearray(b"a\0b\0c"), dtype=torch.uint8)
    shard = tmp_path / "tokens-00000.safetensors"
    _safetensors.write(shard, {"tokens": tokens, "classes": torch.full((3,), -1), "keys": keys}, {})
    record = {"file": shard.name, "images": 3, "bytes": shard.stat().st_size, "sha256": "", "broken": []}
    manifest = {"format": "nsvq-tokens", "version": 2, "complete": True, "images": 3, "grid": [4, 4], "groups": 2,
                "model": {"sha256": "", "codes": 64}, "shards": [record]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    data = nsvq.TokenDataset(tmp_path)
    assert data.shape == (2, 4, 4) and torch.equal(data[2]["tokens"], tokens[2].long()) and data.keys == ["a", "b", "c"]


def test_webdataset(made, tmp_path):
    data = nsvq.TokenDataset(made / "plain")
    tars = data.to_webdataset(tmp_path / "out" / "tokens-{:03d}.tar", images_per_shard=12)
    assert [tar.name for tar in tars] == ["tokens-000.tar", "tokens-001.tar"]
    with tarfile.open(tars[1]) as tar:
        names = tar.getnames()
        tokens = np.load(io.BytesIO(tar.extractfile("000000012.tokens.npy").read()))
    assert len(names) == 3 * 8 and np.array_equal(tokens, data[12]["tokens"].numpy())
    with pytest.raises(ValueError, match="has no place for a number"):
        data.to_webdataset(tmp_path / "tokens.tar")


def test_webdataset_reads_it(made, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    data = nsvq.TokenDataset(made / "plain")
    tars = data.to_webdataset(tmp_path / "tokens-{:03d}.tar", images_per_shard=12)
    found = list(webdataset.WebDataset([str(tar) for tar in tars], shardshuffle=False).decode())
    assert len(found) == IMAGES
    for item, theirs in zip(data, found):
        assert np.array_equal(item["tokens"].numpy(), theirs["tokens.npy"])
        assert (item["class"], item["key"]) == (theirs["cls"], theirs["key.txt"])


def test_datasets_of_hugging_face(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    pytest.importorskip("datasets")
    data = nsvq.TokenDataset(made / "plain")
    theirs = data.to_datasets().with_format("numpy")
    assert len(theirs) == IMAGES and list(theirs["key"]) == data.keys
    assert np.array_equal(theirs[5]["tokens"], data[5]["tokens"].numpy())


def test_without_datasets(made, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ImportError, match="pip install datasets"):
        nsvq.TokenDataset(made / "plain").to_datasets()
