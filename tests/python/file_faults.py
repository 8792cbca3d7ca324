"""Faults of the disk, of memory and of the clock in single commands. file_faults.py NSVQ SHIM [--all | --sample K] [COMMAND...]

Each command runs once undisturbed, which counts its calls on files, and then with a fault at the n-th call of a kind
(tests/faults/fault.h, the library SHIM): every n, or K of them for a command. After each
- the exit code is 0, 2 or 3 as the fault asks for, 137 where the process was to end; 2 and 3 come with one line that names a file;
- the newest checkpoint, if there is one, opens;
- the same command, unless it had succeeded, completes;
- the result is that of the undisturbed command, byte for byte.
Prints a table, and what failed with the words that repeat it (--only). Needs Linux.
"""

import argparse
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
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
    "rename": ["EIO", "EINTR"],
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
ENVIRONMENT = {"NSVQ_INDEX_CACHE": "off", "OMP_NUM_THREADS": "1"}  # a thread each, as two commands run at a time
ENDED = 120  # seconds; only a hang takes so long


class Trial(NamedTuple):
    command: str
    kind: str
    fault: str
    n: int

    def __str__(self):
        return ":".join(map(str, self))


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
            "detokenize-tar": ["detokenize", model, "--tokens", inputs / "tokens", "--out", "OUT/pictures.tar"],
            "export": ["export", model, "--out", "OUT/exported.safetensors"],
            "import": ["import", model, "--like", inputs / "recipe.yaml", "--out", "OUT/imported.safetensors"],
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
        """Calls of each kind, of a command that nothing disturbs."""
        out = self.folder / command
        out.mkdir()
        done, calls = self.disturbed(Trial(command, "change", "crash", 0), out)
        assert done.returncode == 0, done.stderr
        self.undisturbed[command] = self.result(command, out)
        return {kind: int(calls[kind]) for kind in FAULTS}

    def attempt(self, trial):
        """None, or what went wrong; "missed" where the command made fewer calls this time."""
        out = Path(tempfile.mkdtemp(prefix="trial-", dir=self.folder))
        try:
            done, reported = self.disturbed(trial, out)
            if "hit" not in reported and done.returncode == 0:
                return "missed"
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
        except subprocess.TimeoutExpired:
            return f"did not end in {ENDED} s"
        finally:
            shutil.rmtree(out)

    def wrong_end(self, trial, done):
        codes = CODES.get(trial.fault, {0, 2, 3} if trial.kind == "read" or trial.fault == "gone" else {0, 3})
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


def choose(trials, count, generator):
    """`count` of them, each kind and fault as often as the others as far as there are enough."""
    rows = defaultdict(list)
    for trial in trials:
        rows[trial.kind, trial.fault].append(trial)
    for row in rows.values():
        generator.shuffle(row)
    order = list(rows.values())
    generator.shuffle(order)
    chosen = []
    while len(chosen) < min(count, len(trials)):
        chosen += [row.pop() for row in order if row]
    return chosen[:count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nsvq")
    parser.add_argument("shim")
    parser.add_argument("names", nargs="*", help="commands; all if none is named")
    parser.add_argument("--all", action="store_true", help="every call")
    parser.add_argument("--sample", type=int, default=10, help="so many trials of each command")
    parser.add_argument("--only", nargs="*", help="COMMAND:KIND:FAULT:N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_intermixed_args()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        bench = Bench(options.nsvq, options.shim, os.path.realpath(folder))
        trials, calls = [], {}
        for command in options.names or bench.commands:
            calls[command] = bench.count(command)
            every = [Trial(command, kind, fault, n) for kind, faults in FAULTS.items() for fault in faults
                     for n in range(1, calls[command][kind] + 1 + (fault == "lose"))]
            trials += every if options.all else choose(every, options.sample, generator)
        if options.only:
            trials = [Trial(*text.split(":")) for text in options.only]
        tried, failed, missed = Counter(), Counter(), Counter()
        for trial, problem in zip(trials, pool.map(bench.attempt, trials)):
            row = trial[:3]
            tried[row] += 1
            missed[row] += problem == "missed"
            if problem and problem != "missed":
                failed[row] += 1
                print(f"--only {trial}: {problem}", flush=True)
    print("| command | kind | fault | calls | tried | failed |\n|---|---|---|---|---|---|")
    for command, kind, fault in tried:
        row = command, kind, fault
        print(f"| {command} | {kind} | {fault} | {calls[command][kind]} | {tried[row] - missed[row]} | {failed[row]} |")
    print(f"{tried.total() - missed.total()} faults, {failed.total()} failed; {missed.total()} calls did not come again")
    sys.exit(failed.total() > 0)


if __name__ == "__main__":
    main()
