"""Files of tensors (safetensors), read by memory map: only what is used comes from the disk."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
import struct
from dataclasses import dataclass, field

import torch

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in TYPES.items()}
CONTENTS_HASH = "nsvq.contents_sha256"


@dataclass
class TensorFile:
    """What the header of a file says: `entries` are type, shape and offset in the file of each tensor."""

    path: pathlib.Path
    metadata: dict[str, str] = field(default_factory=dict)
    entries: dict[str, tuple[torch.dtype, list[int], int]] = field(default_factory=dict)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors, backed by the file; what is written to them stays in this process."""
        size = self.path.stat().st_size
        storage = torch.UntypedStorage.from_file(str(self.path), shared=False, nbytes=size)
        found = {}
        for name, (dtype, shape, offset) in self.entries.items():
            count = math.prod(shape)
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
            found[name] = whole[offset:offset + count * dtype.itemsize].view(dtype).view(shape)
        return found


def read_header(path: str | os.PathLike) -> TensorFile:
    """Reads names, types and places of a file's tensors; ValueError where they do not add up."""
    path = pathlib.Path(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > size - 8:
                raise ValueError(f"{path}: no safetensors file, or cut short")
            header = json.loads(file.read(length))
        found = TensorFile(path, header.pop("__metadata__", {}))
        for name, entry in header.items():
            dtype, shape, (begin, end) = TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
            if end - begin != math.prod(shape) * dtype.itemsize or begin < 0 or 8 + length + end > size:
                raise ValueError(f"{path}: the tensor {name} does not lie within the file; is it damaged?")
            found.entries[name] = (dtype, shape, 8 + length + begin)
        return found
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: its header cannot be read ({type(error).__name__}: {error}); is it damaged?") from None


def bytes_of(tensor: torch.Tensor) -> memoryview:
    whole = tensor.detach().cpu().contiguous().flatten()
    return memoryview(whole.view(torch.uint8).numpy()) if whole.numel() else memoryview(b"")


def contents_sha256(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> str:
    """The hash of a model file's contents (docs/runs.md)."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        shape = ",".join(map(str, tensors[name].shape))
        digest.update(f"{name}\0{NAMES[tensors[name].dtype]}\0{shape}\0".encode())
        digest.update(bytes_of(tensors[name]))
    for key in sorted(metadata.keys() - {CONTENTS_HASH}):
        digest.update(f"{key}\0{metadata[key]}\0".encode())
    return digest.hexdigest()


def write(path: str | os.PathLike, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Writes a file whole or not at all, with the hash of its contents in the metadata."""
    path, metadata = pathlib.Path(path), {**metadata, CONTENTS_HASH: contents_sha256(tensors, metadata)}
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name in order:
        tensor, begin = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(bytes_of(tensors[name]))
    os.replace(part, path)
