"""Faults of the disk, of memory and of the clock in single commands. file_faults.py NSVQ SHIM [--all | --sample K] [COMMAND...]

Each command runs once undisturbed, which counts its calls on files, and then with a fault at the n-th call of a kind
(tests/faults/fault.h, the library SHIM): every n, or K of them for a command. After each
- the exit code is 0, 2 or 3 as the fault asks for, 137 where the process was to end; 2 and 3 come with one line that names a file;
- the newest checkpoint, if there is one, opens;
- the same command, unless it had succeeded, completes;
- the result is that of the undisturbed command, byte for byte.
Prints tables, and what failed with the words that repeat it (--only). Needs Linux.

Every n takes hours: with --record FILE each trial is a line there, and the same command goes on where it was stopped, by --minutes
or in any other way. --kinds takes some of the calls.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_bench import Bench, Ended, FAULTS, Trial

PROGRESS_EVERY = 30  # seconds


class Record:
    """Trials and how they ended, by a file that grows, if one is named."""

    def __init__(self, path, program):
        self.ended = {}
        self.file = None
        if not path:
            return
        begin = {"program": hashlib.sha256(Path(program).read_bytes()).hexdigest()}
        lines = whole_lines(Path(path))
        if lines and lines[0] != begin:
            sys.exit(f"{path}: of another program; remove it, or name another file")
        for line in lines[1:]:
            self.ended[Trial(*line["trial"])] = Ended(*line["ended"])
        self.file = open(path, "a")
        if not lines:
            self.write(begin)

    def add(self, trial, ended):
        self.ended[trial] = ended
        self.write({"trial": trial, "ended": ended})

    def write(self, line):
        if self.file:
            print(json.dumps(line), file=self.file, flush=True)


def whole_lines(path):
    """Cuts off a last line that was not written to its end."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


class Progress:
    def __init__(self, trials, known):
        self.start = self.said = time.monotonic()
        self.trials, self.known, self.done, self.failed = trials, known, 0, 0

    def add(self, ended):
        self.done += 1
        self.failed += ended.problem is not None
        now = time.monotonic()
        if now - self.said < PROGRESS_EVERY:
            return
        self.said = now
        left = (now - self.start) / self.done * (self.trials - self.done) / 60
        print(f"{self.known + self.done} of {self.known + self.trials} tried, {self.failed} failed, {left:.0f} min left", file=sys.stderr, flush=True)


def every_trial(command, calls):
    return [Trial(command, kind, fault, n) for kind, faults in FAULTS.items() for fault in faults
            for n in range(1, calls[kind] + 1 + (fault == "lose"))]


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


def attempt_all(bench, trials, record, options):
    """Those that the record does not have, until the minutes are over."""
    new = [trial for trial in trials if trial not in record.ended]
    progress = Progress(len(new), len(trials) - len(new))
    end = time.monotonic() + 60 * options.minutes if options.minutes else None

    def attempt(trial):
        return None if end and time.monotonic() > end else bench.attempt(trial)

    pool = ThreadPoolExecutor(options.jobs)
    try:
        for trial, ended in zip(new, pool.map(attempt, new)):
            if ended is None:
                continue
            record.add(trial, ended)
            progress.add(ended)
            if ended.problem:
                print(f"--only {trial}: {ended.problem}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, those that have not begun


def print_outcomes(calls, ended):
    """A row for each kind of call and fault."""
    rows = defaultdict(list)
    for trial, end in ended.items():
        rows[trial[:3]].append(end)
    codes = [0, 2, 3, 137]
    print("| command | kind | fault | calls | tried | " + " | ".join(f"ended {code}" for code in codes) + " | failed |")
    print("|---" * (6 + len(codes)) + "|")
    for (command, kind, fault), ends in rows.items():
        hit = [end for end in ends if not end.missed]
        counts = [sum(end.code == code for end in hit) for code in codes]
        failed = sum(end.problem is not None for end in hit)
        print("|", " | ".join(map(str, [command, kind, fault, calls[command][kind], len(hit), *counts, failed])), "|")


def print_time(every, ended, jobs):
    """What every fault takes, by the time of those that were tried."""
    print("\n| command | faults | tried | seconds each | hours of all |\n|---|---|---|---|---|")
    total = 0
    for command, trials in every.items():
        seconds = [end.seconds for trial, end in ended.items() if trial.command == command]
        if not seconds:
            continue
        mean = sum(seconds) / len(seconds)
        hours = mean * len(trials) / jobs / 3600
        total += hours
        print(f"| {command} | {len(trials)} | {len(seconds)} | {mean:.1f} | {hours:.1f} |")
    print(f"every fault: {total:.1f} hours with --jobs {jobs}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nsvq")
    parser.add_argument("shim")
    parser.add_argument("names", nargs="*", help="commands; all if none is named")
    parser.add_argument("--all", action="store_true", help="every call")
    parser.add_argument("--sample", type=int, default=10, help="so many trials of each command")
    parser.add_argument("--kinds", nargs="*", choices=FAULTS, default=list(FAULTS), help="only faults at these calls")
    parser.add_argument("--only", nargs="*", help="COMMAND:KIND:FAULT:N")
    parser.add_argument("--record", help="file of trials; those that it has are not tried again")
    parser.add_argument("--minutes", type=float, help="no trial begins later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_intermixed_args()
    generator = random.Random(options.seed)
    record = Record(options.record, options.nsvq)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.nsvq, options.shim, os.path.realpath(folder))
        only = [Trial(*words[:3], int(words[3])) for words in (text.split(":") for text in options.only or [])]
        commands = dict.fromkeys(trial.command for trial in only) or options.names or bench.commands
        calls = {command: bench.count(command) for command in commands}
        every = {command: [trial for trial in every_trial(command, calls[command]) if trial.kind in options.kinds] for command in commands}
        trials = only or [trial for some in every.values() for trial in (some if options.all else choose(some, options.sample, generator))]
        attempt_all(bench, trials, record, options)
    ended = {trial: record.ended[trial] for trial in trials if trial in record.ended}
    print_outcomes(calls, ended)
    print_time(every, ended, options.jobs)
    failed = sum(end.problem is not None for end in ended.values())
    missed = sum(end.missed for end in ended.values())
    print(f"{len(ended) - missed} faults, {failed} failed; {missed} calls did not come again; {len(trials) - len(ended)} left")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
