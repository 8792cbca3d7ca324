"""Folders of tokens in the formats of other packages."""

from __future__ import annotations

import io
import pathlib
import tarfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nsvq.tokens import TokenDataset


def write_tars(data: TokenDataset, pattern: str, images_per_shard: int) -> list[pathlib.Path]:
    if pattern.format(0) == pattern.format(1):
        raise ValueError(f"pattern: {pattern!r} has no place for a number; use a name such as tokens-{{:05d}}.tar")
    if images_per_shard < 1:
        raise ValueError(f"images_per_shard must be at least 1, but it is {images_per_shard}")
    paths = []
    for first in range(0, len(data), images_per_shard):
        paths.append(pathlib.Path(pattern.format(len(paths))))
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(paths[-1], "w") as tar:
            for index in range(first, min(first + images_per_shard, len(data))):
                for name, contents in files_of(data[index]).items():
                    entry = tarfile.TarInfo(f"{index:09d}.{name}")
                    entry.size = len(contents)
                    tar.addfile(entry, io.BytesIO(contents))
    return paths


def files_of(item: dict[str, Any]) -> dict[str, bytes]:
    """An item's files by their endings. Keys have dots and slashes, which WebDataset takes apart, so they are a text."""
    tokens = io.BytesIO()
    np.save(tokens, item["tokens"].numpy())
    return {"tokens.npy": tokens.getvalue(), "cls": str(item["class"]).encode(),
            "key.txt": item["key"].encode(errors="surrogateescape")}


def make_datasets(data: TokenDataset) -> Any:
    try:
        import datasets
    except ImportError:
        raise ImportError("nsvq: to_datasets needs the package datasets; install it by `pip install datasets`") from None
    tokens: Any = datasets.Value("int32")
    for size in reversed(data.shape):
        tokens = datasets.Sequence(tokens, length=size)
    features = datasets.Features({"tokens": tokens, "class": datasets.Value("int64"), "key": datasets.Value("string")})

    def items() -> Iterator[dict[str, Any]]:
        for index in range(len(data)):
            item = data[index]
            yield {**item, "tokens": item["tokens"].numpy()}

    return datasets.Dataset.from_generator(items, features=features)
