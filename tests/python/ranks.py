"""What tests of several processes share: starting ranks, waiting, looking at what they left."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

NSVQ = sys.argv[1]
RECIPE = str(Path(__file__).parents[2] / "configs/table1/nsvq.yaml")
SETTINGS = """data.train=builtin:dead-leaves?size=32&count=64 data.val=builtin:dead-leaves?size=32&count=12&seed=1
data.size=32 model.width=8 model.blocks=1 model.latent_dim=16 quantizer.codes=64 loss.perceptual=0 adversarial.weight=0
device=cpu threads=1 drift.images=4 schedule.freeze=epoch schedule.freeze_epoch=1 schedule.warmup_epochs=1
replacement.exempt_epochs=0 optimizer.lr=1e-5 train.epochs=3 train.eval_every=0 train.samples_every=0""".split()
ENDED = 120  # seconds; only a hang takes so long


def settings(**changes):
    """SETTINGS with other values, `__` standing for a dot."""
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    kept = [word for word in SETTINGS if word.split("=", 1)[0] not in changes]
    return kept + [f"{key}={value}" for key, value in changes.items()]


def train_words(run, **changes):
    return [NSVQ, "train", RECIPE, *settings(**changes), "--run", str(run)]


class Ranks:
    """Processes with the variables that a launcher sets."""

    def __init__(self, count, words, folder, last_words=()):
        """`last_words` are of the last rank alone."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.logs = [Path(folder) / f"rank-{rank}.log" for rank in range(count)]
        self.processes = []
        for rank, log in enumerate(self.logs):
            environment = os.environ | {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            own = [*words, *(last_words if rank + 1 == count else ())]
            self.processes.append(subprocess.Popen(own, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT))

    def codes(self):
        return [process.wait(timeout=ENDED) for process in self.processes]

    def lines(self, rank):
        return self.logs[rank].read_text().strip().splitlines()


def newest_folder(run):
    """Folder of the newest checkpoint, or None."""
    folders = sorted((Path(run) / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    return folders[-1] if folders else None


def tensors(run):
    return load_file(newest_folder(run) / "training.safetensors")


def torchrun_words(count, words, options=()):
    python = Path(torch.__file__).parents[4] / "bin/python3"
    return [str(python if python.exists() else sys.executable), "-m", "torch.distributed.run", "--no-python",
            "--nproc-per-node", str(count), "--standalone", *options, "--", *words]


def torchrun(count, words):
    return subprocess.run(torchrun_words(count, words), capture_output=True, text=True, timeout=ENDED)


def wait_for(condition, what):
    for _ in range(ENDED * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"did not come: {what}")


def newest_state(run):
    return json.loads((newest_folder(run) / "state.json").read_text())
