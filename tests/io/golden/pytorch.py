"""Makes pytorch/: small files of torch.save and torch.jit.save.

Run with torch: python pytorch.py
"""

import argparse
import io
import pickle
import struct
import tarfile
from collections import OrderedDict
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "pytorch"


def numbers(*shape, dtype=torch.float32):
    """0, 1, 2 and so on, in the order of memory."""
    count = torch.Size(shape).numel()
    return torch.arange(count).reshape(shape).to(dtype)


def plain():
    """A state_dict: types, a transposed view, two views of one storage, an empty and a single number."""
    rows = numbers(4, 3)
    return OrderedDict([
        ("encoder.conv_in.weight", torch.nn.Parameter(numbers(2, 3))),
        ("transposed", numbers(2, 3, dtype=torch.float64).t()),
        ("first", rows[:2]),
        ("last", rows[2:, 1]),
        ("half", numbers(3, dtype=torch.float16)),
        ("bfloat", numbers(3, dtype=torch.bfloat16)),
        ("long", numbers(2, dtype=torch.int64) - 1),
        ("flags", torch.tensor([True, False])),
        ("empty", torch.zeros(0, 2)),
        ("single", torch.tensor(2.5)),
    ])


def checkpoint():
    """As Lightning and LlamaGen write them: the state_dict beside an optimizer, classes and other values."""
    model = torch.nn.Linear(2, 3)
    with torch.no_grad():
        model.weight.copy_(numbers(3, 2))
        model.bias.copy_(numbers(3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return {"epoch": 3, "state_dict": OrderedDict((f"model.{name}", numbers(*value.shape)) for name, value in model.state_dict().items()),
            "optimizer_states": [optimizer.state_dict()], "args": argparse.Namespace(lr=1e-3, large=2**70, sizes=(1, 2)),
            "callbacks": {argparse.ArgumentParser: {"best": None, "names": {"a"}}}}


def averaged():
    """As LlamaGen writes them while it trains: the moving average is a dict of its own."""
    names = ["weight", "bias"]
    return {"model": {name: numbers(2) for name in names}, "ema": {name: numbers(2) + 5 for name in names}, "steps": 3}


def oldest(tensors, file):
    """A tar as torch.save wrote it before version 0.1.10, of which torch.load reads the tensors."""
    parts = {name: io.BytesIO() for name in ("sys_info", "pickle", "tensors", "storages")}
    named = dict(enumerate(tensors.values(), 100))
    storages = {tensor.untyped_storage()._cdata: tensor for tensor in named.values()}

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return next((key for key, tensor in named.items() if tensor is value), None)

    pickle.dump({"protocol_version": 1000, "little_endian": True}, parts["sys_info"], protocol=2)
    Pickler(parts["pickle"], protocol=2).dump({"state_dict": tensors, "epoch": 3})
    pickle.dump(len(named), parts["tensors"], protocol=2)
    for key, tensor in named.items():
        pickle.dump((key, tensor.untyped_storage()._cdata, torch.FloatTensor), parts["tensors"], protocol=2)
        numbers_of = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        parts["tensors"].write(struct.pack(f"<ii{len(numbers_of)}q", tensor.dim(), 0, *numbers_of))
    pickle.dump(len(storages), parts["storages"], protocol=2)
    for key, tensor in storages.items():
        pickle.dump((key, "cpu", torch.FloatStorage), parts["storages"], protocol=2)
        raw = bytes(tensor.untyped_storage())
        parts["storages"].write(struct.pack("<q", len(raw) // 4) + raw)
    pickle.dump([], parts["storages"], protocol=2)
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, part in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = part.tell()
            tar.addfile(entry, io.BytesIO(part.getvalue()))
    read = torch.load(file, weights_only=False)["state_dict"]
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(2, 2))
        self.register_buffer("levels", numbers(3, dtype=torch.int32), persistent=False)

    def forward(self, x):
        return x @ self.weight + self.levels.sum()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.save(plain(), FOLDER / "plain.pt")
    torch.save(plain(), FOLDER / "protocol-4.pt", pickle_protocol=4)
    torch.save(plain(), FOLDER / "old.pt", _use_new_zipfile_serialization=False)
    rows = numbers(4, 3)
    oldest(OrderedDict([("rows", rows), ("last", rows[2:, 1]), ("transposed", numbers(2, 3).t())]), FOLDER / "oldest.pt")
    torch.save(checkpoint(), FOLDER / "checkpoint.ckpt")
    torch.save(averaged(), FOLDER / "averaged.pt")
    torch.jit.save(torch.jit.script(torch.nn.Sequential(OrderedDict([("encoder", Inner())]))), FOLDER / "module.jit")
