"""Commands under limits of the system. limits.py NSVQ

Open files (ulimit -n) and memory (ulimit -v) from what is too little for the program to start up to what is enough: with each limit
a command ends with exit code 0, or with 2 or 3 and one line; the same command without it then completes, with the result of
one that was never limited. Prints a table.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from fault_bench import Bench, ENDED, ENVIRONMENT

MIB = 1 << 20


class Limited:
    def __init__(self, bench, kind, value):
        self.bench, self.kind, self.value = bench, kind, value

    def run(self, words):
        return subprocess.run([self.bench.nsvq, *words], capture_output=True, text=True, timeout=ENDED,
                              env=os.environ | ENVIRONMENT, preexec_fn=lambda: resource.setrlimit(self.kind, (self.value, self.value)))


def least(bench, kind, values):
    """The first limit with which the program starts at all."""
    return next(value for value in values if Limited(bench, kind, value).run(["--version"]).returncode == 0)


def wrong(bench, command, limit, out):
    """What went wrong, or None; and whether the command succeeded."""
    done = limit.run(bench.words(command, out))
    errors = [line for line in done.stderr.splitlines() if line.startswith("nsvq: ")]
    if done.returncode not in (0, 2, 3):
        return f"exit code {done.returncode}: {done.stderr[-300:]}", False
    if done.returncode != 0 and len(errors) != 1:
        return f"not one line: {done.stderr[-300:]}", False
    if done.returncode != 0 and bench.plain(*bench.words(command, out), environment={}).returncode != 0:
        return "does not complete without the limit", False
    if bench.result(command, out) != bench.undisturbed[command]:
        return "another result", False
    return None, done.returncode == 0


def main():
    failed = 0
    print("| command | limit | from | to | tried | failed |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sys.argv[1], None, os.path.realpath(folder))
        for command in bench.commands:
            out = bench.folder / command
            out.mkdir()
            bench.plain(*bench.words(command, out))
            bench.undisturbed[command] = bench.result(command, out)
            for name, kind, values in (("open files", resource.RLIMIT_NOFILE, range(4, 200)),
                                       ("memory", resource.RLIMIT_AS, range(256 * MIB, 1 << 36, 4 * MIB))):
                first = value = least(bench, kind, values)
                tried, bad, succeeded = 0, 0, False
                while not succeeded and tried < 60:
                    own = Path(tempfile.mkdtemp(dir=folder))
                    problem, succeeded = wrong(bench, command, Limited(bench, kind, value), own)
                    tried += 1
                    if problem:
                        bad += 1
                        print(f"{command}, {name} {value}: {problem}", flush=True)
                    value += values.step
                failed += bad
                unit = MIB if kind == resource.RLIMIT_AS else 1
                print(f"| {command} | {name} | {first // unit} | {(value - values.step) // unit} | {tried} | {bad} |", flush=True)
    sys.exit(failed > 0)


main()
