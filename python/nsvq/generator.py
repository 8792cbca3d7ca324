"""New images by a trained generator of tokens."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from nsvq import _models
from nsvq.program import find_program, run_program
from nsvq.tokenizer import Tokenizer


class Samples(NamedTuple):
    """Images [n, 3, H, W] in [-1, 1], or None without a tokenizer; tokens int64 [n, h, w]; classes int64 [n], -1 without."""

    images: torch.Tensor | None
    tokens: torch.Tensor
    classes: torch.Tensor


class Generator:
    """A generator of tokens that `nsvq generate train` made, sampled by the program (docs/generation.md).

        generator = nsvq.Generator.from_pretrained("runs/gen")
        samples = generator.sample(16, classes=3, guidance=2, seed=0)
        samples.images                                               # [16, 3, H, W] in [-1, 1]

    `codes` and `grid` are of its tokens, `classes` is the number of classes it was told, 0 without. `tokenizer` makes images
    of tokens; None where the generator was trained on tokens of files alone."""

    def __init__(self, model: _models.Model, name: pathlib.Path, tokenizer: str | os.PathLike | None):
        config, metadata = model.settings("nsvq.generator.config"), model.metadata
        self.name, self.config = name, config
        self.codes = int(metadata["nsvq.generator.codes"])
        self.grid = (int(metadata["nsvq.generator.height"]), int(metadata["nsvq.generator.width"]))
        self.classes: int = config["generator"].get("classes", 0)
        path = tokenizer or self._stored_tokenizer(model)
        self._tokenizer = pathlib.Path(path).resolve() if path else None
        self.tokenizer = Tokenizer.from_pretrained(path) if path else None

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike, *, tokenizer: str | os.PathLike | None = None) -> Generator:
        """Opens a run of `nsvq generate train`, a checkpoint of it, or a folder of `nsvq generate export`. `tokenizer` names
        the tokenizer where it has moved. ValueError says what is missing, the program included."""
        find_program()
        return cls(_models.open_model(name), pathlib.Path(name), tokenizer)

    @staticmethod
    def _stored_tokenizer(model: _models.Model) -> pathlib.Path | None:
        exported = model.path.parent / "tokenizer"
        stored = model.metadata.get("nsvq.generator.tokenizer", "")
        path = exported if exported.is_dir() else pathlib.Path(stored) if stored else None
        if path and not path.exists():
            raise ValueError(f"tokenizer: {path}, on which the generator was trained, is not there; name it by tokenizer=...")
        return path

    def sample(self, count: int, *, classes: int | str | Sequence[int] | None = None, guidance: float | None = None,
               seed: int = 0, steps: int | None = None, temperature: float | None = None, top_k: int | None = None,
               top_p: float | None = None, batch_size: int | None = None, device: str = "auto") -> Samples:
        """`count` images of a seed: each depends on the seed, its number and its class alone.

        `classes`: a class for all, a class for each [count], or "all" (the default), the classes in turn. What is None is the
        model's own setting. `device` is auto, cpu or cuda."""
        labels = self._labels(count, classes)
        options: list[str] = ["--seed", str(seed), "--device", device]
        for option, value in (("--guidance", guidance), ("--steps", steps), ("--temperature", temperature),
                              ("--top-k", top_k), ("--top-p", top_p), ("--batch-size", batch_size)):
            options += [] if value is None else [option, str(value)]
        tokens = torch.empty(count, *self.grid, dtype=torch.int64)
        in_turn = classes is None or classes == "all"
        for label in [None] if in_turn or not self.classes else sorted(set(labels)):
            chosen = [i for i in range(count) if label is None or labels[i] == label]
            words = options if label is None else [*options, "--class", str(label)]
            tokens[chosen] = self._tokens(max(chosen) + 1, words)[chosen]
        images = self.tokenizer.decode(tokens) if self.tokenizer else None
        return Samples(images, tokens, torch.tensor(labels))

    def _labels(self, count: int, classes: int | str | Sequence[int] | None) -> list[int]:
        if count < 1:
            raise ValueError(f"count must be at least 1, but it is {count}")
        if not self.classes:
            if classes is not None:
                raise ValueError(f"classes: {self.name} was told none; leave it out")
            return [-1] * count
        if classes is None or classes == "all":
            return [i % self.classes for i in range(count)]
        labels = [classes] * count if isinstance(classes, int) else [int(label) for label in classes]
        if len(labels) != count:
            raise ValueError(f"classes: {len(labels)} of them for {count} images")
        if any(not 0 <= label < self.classes for label in labels):
            raise ValueError(f"classes must be from 0 to {self.classes - 1}, but they are {sorted(set(labels))}")
        return labels

    def _tokens(self, count: int, options: list[str]) -> torch.Tensor:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tokens.npy"
            named = ["--tokenizer", str(self._tokenizer)] if self._tokenizer else []
            run_program("generate", "sample", self.name, "--count", str(count), "--out", file, *named, *options)
            return torch.from_numpy(np.load(file).astype(np.int64)).view(count, *self.grid)
