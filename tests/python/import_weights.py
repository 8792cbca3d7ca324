"""Files of torch.save: `nsvq import` takes SimVQ's names from them by a recipe, `nsvq info` counts and recognises others.

Run by ctest: run.sh import_weights.py NSVQ, the program.
"""

import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
from collections import OrderedDict

from safetensors.numpy import load_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

RECIPE = """
data: {train: "builtin:dead-leaves?size=16&count=16", val: "builtin:dead-leaves?size=16&count=4&seed=1", size: 16}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 4}
quantizer: {type: vq, codes: 32}
train: {steps: 2, batch_size: 8, samples: 2}
"""
SIMVQ = {"mid.block_1.": "mid_block.0.", "mid.block_2.": "mid_block.1.", "upsample.": "upsample.conv1.",
         "quantizer.codebook": "quantize.embedding.weight"}


class Callback:
    """A class that nothing may look up: what is pickled beside the weights."""


class Test:
    def __init__(self, nsvq, folder):
        self.nsvq, self.folder = nsvq, folder
        (folder / "recipe.yaml").write_text(RECIPE)
        self.run("train", folder / "recipe.yaml", "--run", folder / "run")
        self.run("export", folder / "run", "--out", folder / "model.safetensors")
        self.weights = load_file(folder / "model.safetensors")

    def run(self, *words, code=0):
        done = subprocess.run([self.nsvq, *words], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def imported(self, file):
        out = self.folder / f"{file.name}.safetensors"
        self.run("import", file, "--recipe", self.folder / "recipe.yaml", "--out", out)
        found = load_file(out)
        assert found.keys() == self.weights.keys()
        for name, tensor in self.weights.items():
            assert (found[name] == tensor).all(), name

    def as_simvq(self):
        tensors = OrderedDict()
        for name, tensor in self.weights.items():
            for ours, theirs in SIMVQ.items():
                name = name.replace(ours, theirs)
            tensors[name] = torch.from_numpy(tensor).clone()
        return tensors

    def check_checkpoints(self):
        tensors = self.as_simvq()
        files = {"plain.pt": tensors, "lightning.ckpt": {"epoch": 3, "state_dict": tensors, "callbacks": {Callback: Callback()}},
                 "dict.pth": {"model": {f"module.{name}": tensor for name, tensor in tensors.items()}, "steps": 2}}
        for name, contents in files.items():
            torch.save(contents, self.folder / name)
            self.imported(self.folder / name)
            shown = json.loads(self.run("info", self.folder / name, "--json", "-"))
            assert (shown["layout"], shown["importable"], shown["codes"]) == ("SimVQ's network with a plain codebook", True, 32), shown
            assert shown["tensors"] == len(tensors) and shown["parameters"]["quantize"] == 32 * 4

    def check_old_files(self):
        """Those of before torch 1.6; a pickle of other makers is none of them."""
        file, tensors = self.folder / "an old one.pt", self.as_simvq()
        torch.save({"state_dict": tensors, "steps": 2, "optimizer": {"m": torch.ones(3, dtype=torch.int16)}}, file, _use_new_zipfile_serialization=False)
        self.imported(file)
        assert json.loads(self.run("info", file, "--json", "-"))["tensors"] == len(tensors)
        (self.folder / "other.pt").write_bytes(pickle.dumps({"a": 1}, protocol=2))
        message = self.run("import", self.folder / "other.pt", "--out", self.folder / "m.safetensors", code=2)
        assert "a Python pickle that torch.save has not written" in message and message.count("\n") == 1, message

    def check_taming(self):
        file = self.folder / "last.ckpt"
        names = ["encoder.down.0.block.0.conv1.bias", "encoder.mid.attn_1.q.weight", "quant_conv.weight"]
        tensors = {name: torch.zeros(4) for name in names} | {"quantize.embedding.weight": torch.zeros(1024, 256)}
        torch.save({"state_dict": tensors, "callbacks": {Callback: 1}}, file)
        message = self.run("import", file, "--out", self.folder / "taming.safetensors", code=2)
        assert "there is no decoder in it" in message, message
        assert "quantize     262144 parameters" in self.run("info", file)


def main(nsvq):
    with tempfile.TemporaryDirectory() as folder:
        test = Test(nsvq, pathlib.Path(folder))
        test.check_checkpoints()
        test.check_old_files()
        test.check_taming()


main(*sys.argv[1:])
