"""A command with a fault at its n-th call of a kind, for file_faults.py, which has what is demanded of it."""

import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

RECIPE = """
threads: 1
data: {train: "builtin:dead-leaves?size=8&count=16", val: "builtin:dead-leaves?size=8&count=4&seed=1", size: 8}
model: {width: 8, multipliers: [1], blocks: 1, latent_dim: 4}
quantizer: {codes: 16, init: data}
optimizer: {lr: 1e-3, ema_decay: 0.9}
schedule: {freeze: epoch, freeze_epoch: 1, warmup_epochs: 1}
train: {epochs: 2, batch_size: 8, log_every: 1, samples: 2, samples_every: 2, eval_every: 2}
drift: {every_steps: 2, images: 2}
checkpoint: {every_steps: 2, keep: 1}
"""
FAULTS = {
    "open": ["ENOSPC", "EMFILE", "EINTR"],
    "mkdir": ["ENOSPC"],
    "write": ["ENOSPC", "EIO", "EINTR", "short"],
    "sync": ["EIO", "EINTR"],
    "rename": ["EIO", "EINTR", "EPERM"],  # the last as on file systems without hard links
    "truncate": ["EIO", "EINTR"],
    "remove": ["EIO"],
    "read": ["EIO", "EINTR", "short"],
    "mmap": ["ENOMEM"],
    "malloc": ["ENOMEM"],
    "change": ["full", "readonly", "gone", "crash", "lose", "future", "past"],
}
CODES = {"EINTR": {0}, "short": {0}, "future": {0}, "past": {0}, "crash": {137}, "lose": {137}}
TIMED = ("images_per_second", "samples_per_second", "peak_memory_gib", "seconds")
LEAST_ALLOCATION = 65536
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}  # a thread each, as two commands run at a time
ENDED = 120  # seconds; only a hang takes so long


class Trial(NamedTuple):
    command: str
    kind: str
    fault: str
    n: int

    def __str__(self):
        return ":".join(map(str, self))


class Ended(NamedTuple):
    code: int | None  # None if it did not end
    missed: bool  # the command made fewer calls this time
    problem: str | None  # what is not as demanded
    seconds: float  # with what was run afterwards


def run_result(out):
    """What a run leaves: tensors and log of its last step."""
    run = out / "run"
    last = max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    result = {name: (last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}
    result["metrics"] = [{key: value for key, value in line.items() if key not in TIMED} for line in lines]
    result["step"] = last.name
    result["samples"] = files_in(run / "samples")
    return result


def files_in(folder):
    """Bytes of all files but hidden ones, which may be unfinished, and those in hidden folders."""
    names = {path: path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for path, name in names.items()
            if not any(part.startswith(".") for part in name.parts)}


class Bench:
    def __init__(self, nsvq, shim, folder):
        self.nsvq, self.shim, self.folder = nsvq, shim, Path(folder)
        inputs = self.folder / "inputs"
        inputs.mkdir()
        (inputs / "recipe.yaml").write_text(RECIPE)
        self.plain("train", inputs / "recipe.yaml", "--run", inputs / "run", "train.epochs=1")
        model = next((inputs / "run/checkpoints").glob("step-*")) / "model.safetensors"
        images = "builtin:dead-leaves?size=8&count=20"
        self.plain("tokenize", model, "--data", images, "--out", inputs / "tokens", "--shard-size", 8)
        self.commands = {
            "train": ["train", inputs / "recipe.yaml", "--run", "OUT/run"],
            "tokenize": ["tokenize", model, "--data", images, "--out", "OUT/tokens", "--shard-size", 8],
            "detokenize": ["detokenize", model, "--tokens", inputs / "tokens", "--out", "OUT/pictures"],
            "detokenize-tar": ["detokenize", model, "--tokens", inputs / "tokens", "--out", "OUT/pictures.tar", "--force"],
            "export": ["export", model, "--out", "OUT/exported.safetensors", "--force"],
            "import": ["import", model, "--recipe", inputs / "recipe.yaml", "--out", "OUT/imported.safetensors", "--force"],
        }
        self.undisturbed = {}

    def plain(self, *words, environment=None):
        return_code = subprocess.run([self.nsvq, *map(str, words)], capture_output=True, text=True, timeout=ENDED,
                                     env=os.environ | ENVIRONMENT | (environment or {}))
        assert environment is not None or return_code.returncode == 0, return_code.stderr
        return return_code

    def words(self, command, out):
        return [str(word).replace("OUT", str(out)) for word in self.commands[command]]

    def disturbed(self, trial, out):
        """The ended process, and what the shim reported."""
        report = out / ".report"
        number = getattr(errno, trial.fault, trial.fault)
        done = self.plain(*self.words(trial.command, out), environment={
            "LD_PRELOAD": self.shim, "NSVQ_FAULT_FOLDER": str(self.folder), "NSVQ_FAULT_REPORT": str(report),
            "NSVQ_FAULT_KIND": trial.kind, "NSVQ_FAULT_WHAT": str(number), "NSVQ_FAULT_AT": str(trial.n),
            "NSVQ_FAULT_BYTES": str(LEAST_ALLOCATION)})
        lines = report.read_text().splitlines() if report.exists() else []
        return done, dict(line.split(" ", 1) for line in lines)

    def result(self, command, out):
        return run_result(out) if command == "train" else files_in(out)

    def count(self, command):
        """Calls of each kind, of a command that nothing disturbs; its result is kept."""
        out = self.folder / command
        out.mkdir()
        done, calls = self.disturbed(Trial(command, "change", "crash", 0), out)
        assert done.returncode == 0, done.stderr
        self.undisturbed[command] = self.result(command, out)
        return {kind: int(calls[kind]) for kind in FAULTS}

    def attempt(self, trial):
        out = Path(tempfile.mkdtemp(prefix="trial-", dir=self.folder))
        start = time.monotonic()
        code = None
        try:
            done, reported = self.disturbed(trial, out)
            code = done.returncode
            missed = "hit" not in reported and code == 0
            problem = None if missed else self.problem(trial, done, out)
        except subprocess.TimeoutExpired:
            missed, problem = False, f"did not end in {ENDED} s"
        finally:
            shutil.rmtree(out)
        return Ended(code, missed, problem, time.monotonic() - start)

    def problem(self, trial, done, out):
        """What is not as demanded, after the command has been completed; or None."""
        problem = self.wrong_end(trial, done) or self.wrong_checkpoint(out)
        if problem:
            return problem
        if done.returncode != 0:
            again = self.plain(*self.words(trial.command, out), environment={})
            if again.returncode != 0:
                return f"run again, it ended with {again.returncode}: {again.stderr[-500:]}"
        if self.result(trial.command, out) != self.undisturbed[trial.command]:
            return "another result than undisturbed"
        return None

    def wrong_end(self, trial, done):
        codes = CODES.get(trial.fault, {0, 2, 3} if trial.kind == "read" or trial.fault == "gone" else {0, 3})
        if trial.fault == "readonly" and "create" in done.stderr:
            codes = codes | {2}  # the folder of the output, which is the user's to choose
        if done.returncode not in codes:
            return f"exit code {done.returncode}, not {codes}: {done.stderr[-500:]}"
        if done.returncode in (0, 137):
            return None
        errors = [line for line in done.stderr.splitlines() if line.startswith("nsvq: ")]
        named = "memory" if trial.kind == "malloc" else str(self.folder)
        if len(errors) != 1 or named not in errors[0]:
            return f"not one line that names {named}: {done.stderr[-500:]}"
        return None

    def wrong_checkpoint(self, out):
        if not list(out.glob("run/checkpoints/step-*")):
            return None
        info = self.plain("info", out / "run", environment={})
        return None if info.returncode == 0 else f"nsvq info: {info.stderr[-500:]}"
