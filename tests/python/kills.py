"""SIGKILL at random moments. kills.py NSVQ [--kills 100] [--seed 1] [COMMAND...]

Each command runs once undisturbed, and is then started and killed again and again, at most three times for a folder, until
it completes. A kill is of the process alone, whose children have to end with it, or of all that it has started; the next start is
at once or when they are gone. Prints a table: kills, folders completed, and in how many of them the result is that of the undisturbed
command, byte for byte (of `reproduce`: weights and logs of its runs, tables and pictures, apart from times and paths).
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from fault_bench import ENDED, ENVIRONMENT, files_in, run_result

RECIPE = Path(__file__).parents[1] / "cli/killed.yaml"
EXPERIMENT = Path(__file__).parent / "killed_experiment.yaml"
KILLS_PER_FOLDER = 3
EARLIEST = 0.25  # of the time of an undisturbed command, before which libraries are loaded
EARLIEST_OF_SEVERAL = 0.05  # of a command that starts others
CONTENTS = ("model.safetensors", "training.safetensors")  # which have paths
CHILDREN_END = 20  # seconds after their parent; a helper process kills them


def tensors(file):
    """A safetensors file without its metadata, which may have paths."""
    data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return header, data[begin:]


def reproduced(out):
    """What `reproduce` leaves, without what depends on the machine's speed or the folder's name."""
    pages = out / "pages"
    result = {"tables": {path.name: path.read_text() for path in [*pages.glob("*.md"), *pages.glob("*.json")]},
              "pictures": {path.name: path.read_bytes() for path in (pages / "pictures").glob("*.png")}}
    assert result["tables"] and result["pictures"]
    for folder in (pages / "runs").iterdir():
        run = run_result(folder) if (folder / "run").exists() else {}
        run.update({str(file.relative_to(folder)): tensors(file) for file in folder.rglob("*.safetensors")})
        result[folder.name] = {name: value for name, value in run.items() if name not in CONTENTS}
    return result


def state_and_parent(process):
    """State and parent by /proc; None for a process that is gone."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else (state, int(parent))


def started_by(process):
    """All processes below this one."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {number: found[1] for number in numbers if (found := state_and_parent(number))}
    below, grown = {process}, True
    while grown:
        more = {number for number, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return below - {process}


def left_after_a_while(processes):
    end = time.monotonic() + CHILDREN_END
    while (left := [number for number in processes if state_and_parent(number)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


class Kill(NamedTuple):
    moment: float  # share of the time of an undisturbed command
    whole: bool  # all that it has started as well
    at_once: bool  # the next start

    def strike(self, process):
        """What was below the process, some of which may take a moment to end."""
        os.kill(process.pid, signal.SIGSTOP)  # so that it starts nothing more meanwhile
        os.waitpid(process.pid, os.WUNTRACED)
        below = started_by(process.pid)
        for number in [*(below if self.whole else []), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.wait()
        return below


class Commands:
    def __init__(self, nsvq, folder):
        self.nsvq = nsvq
        run, tokens = folder / "run", folder / "tokens"
        images = ["--data", "builtin:dead-leaves?size=16&count=200", "--shard-size", "8"]
        self.check(["train", RECIPE, "--run", run, "train.epochs=1"])
        self.check(["tokenize", run, *images, "--out", tokens])
        self.table = {
            "train": (["train", RECIPE, "--run", "OUT/run"], run_result),
            "tokenize": (["tokenize", run, *images, "--out", "OUT/tokens"], files_in),
            "detokenize": (["detokenize", run, "--tokens", tokens, "--out", "OUT/pictures"], files_in),
            "detokenize-tar": (["detokenize", run, "--tokens", tokens, "--out", "OUT/pictures.tar", "--force"], files_in),
            "reproduce": (["reproduce", EXPERIMENT, "--scale", "test", "--jobs", "2", "--out", "OUT/pages"], reproduced),
        }

    def start(self, words, out):
        log = (out / ".log").open("a")
        words = [str(word).replace("OUT", str(out)) for word in words]
        return subprocess.Popen([self.nsvq, *words], stdout=log, stderr=log, env=os.environ | ENVIRONMENT)

    def check(self, words):
        subprocess.run([self.nsvq, *map(str, words)], check=True, capture_output=True)

    def undisturbed(self, command, out):
        """Its result, and the seconds it took."""
        words, result = self.table[command]
        start = time.monotonic()
        assert self.start(words, out).wait(ENDED) == 0, (out / ".log").read_text()[-1000:]
        return result(out), time.monotonic() - start

    def killed(self, command, out, seconds, kills):
        """Kills it as `kills` say; completes it. The number of kills, and its result or an error."""
        words, result = self.table[command]
        done, below = 0, set()
        for kill in [*kills, None]:
            process = self.start(words, out)
            if left := left_after_a_while(below):
                process.kill()
                return done, f"processes go on without their parent: {left}"
            try:
                code = process.wait(kill.moment * seconds if kill else ENDED)
            except subprocess.TimeoutExpired:
                if not kill:
                    raise
                below = kill.strike(process)
                done += 1
                if not kill.at_once and (left := left_after_a_while(below)):
                    return done, f"processes go on without their parent: {left}"
                continue
            return done, result(out) if code == 0 else (out / ".log").read_text()[-1000:]


def difference(found, expected):
    if isinstance(found, str):
        return found
    return ", ".join(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def random_kills(command, generator):
    earliest = EARLIEST_OF_SEVERAL if command == "reproduce" else EARLIEST
    return [Kill(generator.uniform(earliest, 1), generator.random() < 0.5, generator.random() < 0.5) for _ in range(KILLS_PER_FOLDER)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nsvq")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kills", type=int, default=100, help="of each command, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_intermixed_args()
    generator = random.Random(options.seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as text, ThreadPoolExecutor(options.jobs) as pool:
        folder = Path(text)
        commands = Commands(options.nsvq, folder)
        print("| command | seconds | kills | folders | equal |\n|---|---|---|---|---|")
        for command in options.names or commands.table:
            new_folder = lambda: Path(tempfile.mkdtemp(dir=folder))
            expected, seconds = commands.undisturbed(command, new_folder())
            kills, folders, equal = 0, 0, 0
            while kills < options.kills:
                plans = [random_kills(command, generator) for _ in range(options.jobs)]
                for done, found in pool.map(lambda plan: commands.killed(command, new_folder(), seconds, plan), plans):
                    kills += done
                    folders += 1
                    equal += found == expected
                    if found != expected:
                        print(f"{command}: another result: {difference(found, expected)}", flush=True)
            wrong += folders - equal
            print(f"| {command} | {seconds:.1f} | {kills} | {folders} | {equal} |", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
