"""SIGKILL at random moments. kills.py NSVQ [--kills 100] [--seed 1] [COMMAND...]

Each command runs once undisturbed, and is then started and killed again and again, at most three times for a folder, until
it completes. Prints a table: kills, folders completed, and in how many of them the result is that of the undisturbed command, byte for
byte (of `reproduce`: its figures, apart from times).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_bench import ENDED, ENVIRONMENT, files_in, run_result

RECIPE = Path(__file__).parents[1] / "cli/killed.yaml"
KILLS_PER_FOLDER = 3
EARLIEST = 0.25  # of the time of an undisturbed command, before which libraries are loaded


def figures(out):
    """What `reproduce` found, without what depends on the machine's speed."""
    found = {}
    for file in sorted((out / "pages").glob("*.json")):
        for row in json.loads(file.read_text())["rows"]:
            for column, figure in row["figures"].items():
                if not any(word in column for word in ("time", "seconds", "hours", "memory", "speed", "images_per")):
                    found[file.name, row["name"], column] = figure["mean"]
    assert found
    return found


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
            "detokenize-tar": (["detokenize", run, "--tokens", tokens, "--out", "OUT/pictures.tar"], files_in),
            "reproduce": (["reproduce", "phases", "--scale", "test", "--out", "OUT/pages"], figures),
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

    def killed(self, command, out, seconds, moments):
        """Kills it after each of `moments`, shares of `seconds`; completes it. The number of kills, and its result or an error."""
        words, result = self.table[command]
        kills = 0
        for moment in moments:
            process = self.start(words, out)
            try:
                code = process.wait(moment * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                continue
            if code != 0:
                return kills, (out / ".log").read_text()[-1000:]
            break
        else:
            if self.start(words, out).wait(ENDED) != 0:
                return kills, (out / ".log").read_text()[-1000:]
        return kills, result(out)


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
                moments = [[generator.uniform(EARLIEST, 1) for _ in range(KILLS_PER_FOLDER)] for _ in range(options.jobs)]
                for done, found in pool.map(lambda shares: commands.killed(command, new_folder(), seconds, shares), moments):
                    kills += done
                    folders += 1
                    equal += found == expected
                    if found != expected:
                        print(f"{command}: another result: {found if isinstance(found, str) else ''}", flush=True)
            wrong += folders - equal
            print(f"| {command} | {seconds:.1f} | {kills} | {folders} | {equal} |", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
