"""From what a user names to a model file: a run, a checkpoint, a file, a folder, or a model in Hugging Face's cache."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import warnings
from typing import Any

import torch

from . import _safetensors
from ._settings import parse_settings

MODEL_FILE = "model.safetensors"
LAST_FORMAT = 2  # of model files, nsvq/tokenizer/model_file.h
# Keys of metadata that hold the settings of a kind of models.
KINDS = {"nsvq.config": "tokenizer", "nsvq.generator.config": "generator of tokens", "nsvq.diffusion.config": "diffusion model"}


class Model:
    """A model file: its tensors, metadata and settings. ValueError where it is damaged or of a later version."""

    def __init__(self, path: pathlib.Path):
        file = _safetensors.read_header(path)
        self.path, self.metadata, self.tensors = path, file.metadata, file.tensors()
        stored = self.metadata.get(_safetensors.CONTENTS_HASH)
        if stored and stored != _safetensors.contents_sha256(self.tensors, self.metadata):
            raise ValueError(f"{path}: damaged (does not hold what was written, by its sha256); copy it again")
        self.format = int(self.metadata.get("nsvq.format", 0))
        if self.format > LAST_FORMAT:
            raise ValueError(f"{path}: model format {self.format}, this package reads formats up to {LAST_FORMAT}; "
                             "install a newer one")

    def settings(self, key: str = "nsvq.config") -> dict[str, Any]:
        """The settings that the metadata hold. `key` is that of a kind of models, here of tokenizers."""
        if key not in self.metadata:
            found = [kind for other, kind in KINDS.items() if other in self.metadata]
            reason = f"a {found[0]}" if found else "another program's weights; `nsvq import` makes a tokenizer of them"
            raise ValueError(f"{self.path}: no {KINDS[key]} of nsvq's but {reason}")
        settings = parse_settings(self.metadata[key], f"{self.path} ({key})")
        if self.format < 2 and key == "nsvq.config":  # before these were settings
            quantizer = settings["quantizer"]
            quantizer.setdefault("cvq", {}).setdefault("distance", "l2")
            quantizer.setdefault("bridge", {}).setdefault("variant", "vit")
        return settings


def checkpoints_of(run: pathlib.Path) -> list[pathlib.Path]:
    """Checkpoint folders of a run, the newest first."""
    found = [(int(match[1]), path) for path in (run / "checkpoints").glob("step-*")
             if (match := re.fullmatch(r"step-(\d+)", path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def newest_model(run: pathlib.Path) -> Model:
    for folder in checkpoints_of(run):
        try:
            return Model(folder / MODEL_FILE)
        except (ValueError, FileNotFoundError) as error:
            warnings.warn(f"{error}; the checkpoint before it is tried", stacklevel=4)
    raise ValueError(f"{run}: the models of all its checkpoints are damaged")


def cached_snapshot(name: str, revision: str) -> pathlib.Path | None:
    """The folder of a model in Hugging Face's cache, where it was downloaded before; nothing is downloaded."""
    home = os.environ.get("HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    cache = pathlib.Path(os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))).expanduser()
    folder = cache / f"models--{name.replace('/', '--')}"
    reference = folder / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if (snapshot / MODEL_FILE).is_file() else None


def open_model(name: str | os.PathLike, revision: str = "main") -> Model:
    """The model of a run's folder (its newest intact checkpoint), of a checkpoint's, of an exported folder, of
    RUN/checkpoints/best, of a .safetensors file, or of a model in Hugging Face's cache ("organisation/name")."""
    path = pathlib.Path(name)
    if path.name == "best" and path.is_file():
        return Model(path.parent / path.read_text().strip() / MODEL_FILE)
    if path.is_file():
        return Model(path)
    if path.is_dir():
        if checkpoints_of(path):
            return newest_model(path)
        if (path / MODEL_FILE).is_file():
            return Model(path / MODEL_FILE)
        raise ValueError(f"{path}: holds neither checkpoints/step-N/ nor {MODEL_FILE}")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", str(name)):
        if snapshot := cached_snapshot(str(name), revision):
            return Model(snapshot / MODEL_FILE)
        raise ValueError(f"{name}: no such run or file, and Hugging Face's cache does not have it; "
                         f"`hf download {name}` puts it there")
    raise ValueError(f"{name}: no such run, checkpoint or model file")


def tensors_sha256(tensors: dict[str, torch.Tensor]) -> str:
    """The hash of all weights, by which tokens name their model."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(_safetensors.bytes_of(tensors[name]))
    return digest.hexdigest()
