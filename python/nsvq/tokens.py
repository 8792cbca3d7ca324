"""Folders of tokens as PyTorch data sets."""

from __future__ import annotations

import bisect
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from nsvq import _safetensors

__all__ = ["TokenDataset", "TokenStream"]
VERSIONS = (1, 2)
DTYPES = {torch.uint8: np.uint8, torch.uint16: np.uint16, torch.int32: np.int32, torch.int64: np.int64}


class Shard:
    """One file of tokens, memory-mapped: `tokens` [n, ...], `classes` [n] and `keys`."""

    def __init__(self, path: pathlib.Path):
        header = _safetensors.read_header(path)
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        for name in ("tokens", "classes", "keys"):
            if name not in header.entries:
                raise ValueError(f"{path}: holds no tensor {name!r}; is it a shard of tokens?")
            dtype, shape, offset = header.entries[name]
            size = int(np.prod(shape)) * dtype.itemsize
            setattr(self, name, mapped[offset:offset + size].view(DTYPES[dtype]).reshape(shape))

    tokens: np.ndarray
    classes: np.ndarray
    keys: np.ndarray

    @functools.cached_property
    def names(self) -> list[str]:
        return bytes(self.keys).decode(errors="surrogateescape").split("\0")


class TokenDataset(Dataset):
    """Tokens of images, a folder of `nsvq tokenize`, by number and memory-mapped.

        data = nsvq.TokenDataset("tokens/")
        data[0]["tokens"], data[0]["class"], data[0]["key"]     # int64 [h, w]; an int, -1 without classes; the image's name
        data.stream(shuffle=True, seed=0)                       # an IterableDataset for many ranks and workers

    Tokens have the shape `shape`: [h, w], or [n] of several scales (`grids`), behind [groups] and [variants] where the folder
    has them. `variant` takes one of an image's crops: its name or number, "center" (the central one, or the image itself),
    "random", a new one each time, or "all", which keeps the dimension. `transform` is applied to each item. `verify` compares
    the sha256 of every shard, which reads them whole; without it sizes and shapes are compared. ValueError names what does
    not fit."""

    def __init__(self, folder: str | os.PathLike, *, variant: str | int = "center", verify: bool = False,
                 transform: Callable[[dict[str, Any]], Any] | None = None):
        self.folder, self.transform = pathlib.Path(folder), transform
        self.manifest = read_manifest(self.folder)
        self.codes: int = self.manifest["model"]["codes"]
        self.model_sha256: str = self.manifest["model"]["sha256"]
        self.class_names: list[str] = self.manifest.get("classes", [])
        self.grid: tuple[int, int] = tuple(self.manifest["grid"])
        self.grids: list[tuple[int, int]] = [tuple(grid) for grid in self.manifest.get("grids", [self.grid])]
        self.groups: int = self.manifest.get("groups", 1)
        self.variants: list[str] = self.manifest.get("variants", [])
        self.variant = self._variant_number(variant)
        self._records = [record for record in self.manifest["shards"] if record["images"]]
        self._ends = np.cumsum([record["images"] for record in self._records]).tolist()
        self._shards: dict[int, Shard] = {}
        for record in self.manifest["shards"]:
            check_shard(self.folder / record["file"], record, verify)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Any:
        """{"tokens": int64 of `shape`, "class": int, "key": str}"""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index: {index} is beyond {len(self)} images")
        shard, row = self._place(index % len(self))
        tokens = shard.tokens[row]
        if self.variants and self.variant != "all":
            chosen = int(torch.randint(len(self.variants), ())) if self.variant == "random" else self.variant
            tokens = tokens[chosen]
        item = {"tokens": torch.from_numpy(tokens.astype(np.int64)), "class": int(shard.classes[row]), "key": shard.names[row]}
        return self.transform(item) if self.transform else item

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of an item's tokens."""
        sizes = (len(self.variants),) if self.variants and self.variant == "all" else ()
        sizes += (self.groups,) if self.groups > 1 else ()
        return sizes + (self.grid if len(self.grids) == 1 else (sum(h * w for h, w in self.grids),))

    @property
    def keys(self) -> list[str]:
        """The names of all images."""
        return [name for number in range(len(self._records)) for name in self._shard(number).names]

    @property
    def classes(self) -> torch.Tensor:
        """The classes of all images, int64 [images]; -1 without one."""
        parts = [self._shard(number).classes for number in range(len(self._records))]
        return torch.from_numpy(np.concatenate(parts) if parts else np.zeros(0, np.int64))

    def scales(self, tokens: torch.Tensor) -> list[torch.Tensor]:
        """Tokens [..., n] of several scales as the grids of each, [..., h, w]."""
        if len(self.grids) == 1:
            return [tokens]
        parts = tokens.split([h * w for h, w in self.grids], -1)
        return [part.unflatten(-1, grid) for part, grid in zip(parts, self.grids)]

    def stream(self, *, shuffle: bool = False, seed: int = 0, even: bool = True) -> TokenStream:
        """The items in turn, shared out over the ranks of torch.distributed and a DataLoader's workers (TokenStream)."""
        return TokenStream(self, shuffle=shuffle, seed=seed, even=even)

    def to_webdataset(self, pattern: str | os.PathLike, *, images_per_shard: int = 10000) -> list[pathlib.Path]:
        """Writes tars as WebDataset reads them; `pattern` is a name with the tar's number, such as "out/tokens-{:05d}.tar". An
        image is tokens.npy (int64), cls and key.txt under its number. Returns the tars."""
        from nsvq._token_exports import write_tars

        return write_tars(self, os.fspath(pattern), images_per_shard)

    def to_datasets(self) -> Any:
        """A `datasets.Dataset` of Hugging Face with the columns tokens, class and key. Needs the package datasets."""
        from nsvq._token_exports import make_datasets

        return make_datasets(self)

    def _variant_number(self, variant: str | int) -> str | int:
        if variant in ("random", "all"):
            return variant
        if variant == "center":  # the central crop stands for the image
            return next((i for i, name in enumerate(self.variants) if name.startswith("center")), 0)
        if isinstance(variant, int) and 0 <= variant < max(1, len(self.variants)):
            return variant
        if variant in self.variants:
            return self.variants.index(variant)
        raise ValueError(f"variant: {variant!r} is none of {self.folder}; it has " +
                         (", ".join(self.variants) or "no crops") + ', and there are "center", "random" and "all"')

    def _shard(self, number: int) -> Shard:
        if number not in self._shards:
            self._shards[number] = Shard(self.folder / self._records[number]["file"])
        return self._shards[number]

    def _place(self, index: int) -> tuple[Shard, int]:
        number = bisect.bisect_right(self._ends, index)
        return self._shard(number), index - (self._ends[number - 1] if number else 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shards": {}}  # workers map the files themselves


class TokenStream(IterableDataset):
    """A TokenDataset's items in turn. Item i of an epoch's order goes to consumer i mod n of all n workers of all ranks.

    With `shuffle` the order of an epoch follows from `seed` and the epoch: `set_epoch(n)` before each, or, in one process, the
    epochs count themselves. With `even` all consumers get equally many, so that no rank waits for another, and up to n - 1
    items are left out of an epoch; without it each item comes once."""

    def __init__(self, data: TokenDataset, *, shuffle: bool = False, seed: int = 0, even: bool = True):
        self.data, self.shuffle, self.seed, self.even = data, shuffle, seed, even
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # also for workers that stay

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def consumer(self) -> tuple[int, int]:
        """The number of this worker among those of all ranks, and how many there are."""
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, ranks = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if distributed else (
            int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
        worker = get_worker_info()
        return (rank * worker.num_workers + worker.id, ranks * worker.num_workers) if worker else (rank, ranks)

    def order(self) -> Sequence[int]:
        if not self.shuffle:
            return range(len(self.data))
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + int(self.epoch))
        return torch.randperm(len(self.data), generator=generator).tolist()

    def __iter__(self) -> Iterator[Any]:
        number, count = self.consumer()
        order = self.order()
        end = len(order) // count * count if self.even else len(order)
        if get_worker_info() is None:
            self.epoch += 1
        for index in order[number:end:count]:
            yield self.data[index]


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """manifest.json of a complete folder of tokens (docs/tokens.md)."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise ValueError(f"{folder}: holds no manifest.json; is it a folder of `nsvq tokenize`?")
    try:
        manifest = json.loads(path.read_text(errors="replace"))
        if manifest["format"] != "nsvq-tokens" or manifest["version"] not in VERSIONS:
            raise ValueError(f"{path}: is {manifest['format']}, version {manifest['version']}; "
                             f"this package reads nsvq-tokens, versions {VERSIONS[0]} and {VERSIONS[1]}")
        if not manifest["complete"]:
            raise ValueError(f"{folder}: is incomplete; the `nsvq tokenize` that began it, given again, completes it")
        for key in ("grid", "model", "shards"):
            manifest[key]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error}); is it damaged?") from None
    return manifest


def check_shard(path: pathlib.Path, record: dict[str, Any], verify: bool) -> None:
    """ValueError for a shard that is not as its record in the manifest says."""
    if path.name != record["file"] or not path.is_file():
        raise ValueError(f"{path}: is missing; `nsvq tokens verify {path.parent}` names all that is wrong")
    if path.stat().st_size != record["bytes"]:
        raise ValueError(f"{path}: has {path.stat().st_size} bytes where the manifest says {record['bytes']}; copy it again")
    images = _safetensors.read_header(path).entries.get("tokens", (None, [-1], 0))[1][0]
    if images != record["images"]:
        raise ValueError(f"{path}: holds tokens of {images} images where the manifest says {record['images']}")
    if not verify:
        return
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    if digest.hexdigest() != record["sha256"]:
        raise ValueError(f"{path}: damaged: its sha256 is not that of the manifest; copy it again")
