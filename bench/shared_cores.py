"""Rates of nsvq alone, beside one and two of its kind, and beside one busy thread:

    bench/shared_cores.py BUILD [SECONDS=15] [--data IMAGES] [--kinds train,tokenize,eval,ops] [--env NAME=VALUE]...

BUILD is a folder with nsvq and nsvq_bench. Prints a CSV with a line for each process that was measured: its rate over
SECONDS, counted from 3 s after all have begun, and that rate divided by the rate alone. `train` counts steps of
configs/quickstart.yaml, `tokenize` images and `eval` (PSNR and SSIM) batches, of drawn images without --data, all three
by their progress on a terminal; `ops` is 1 divided by the median time of ns_quantize with backward pass. All run on the cores
that this script may use (taskset), which should do nothing else. 5 minutes with the defaults.
"""

import argparse
import os
import pathlib
import pty
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
DRAWN = "builtin:dead-leaves?size=64&count=200000"
SETTLED = 3  # seconds until a process knows what others do


class OnTerminal:
    """A command on a terminal of its own, whose last progress `N/M` it knows."""

    def __init__(self, words, environment):
        self.done = 0
        self.output = ""
        terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
                                        start_new_session=True)
        os.close(theirs)
        threading.Thread(target=self.read, args=(terminal,), daemon=True).start()

    def read(self, terminal):
        try:
            while text := os.read(terminal, 1 << 16).decode(errors="replace"):
                self.output = (self.output + text)[-4000:]
                if found := re.findall(r"[ \]](\d+)/\d+ +\d+%", text):
                    self.done = int(found[-1])
        except OSError:  # the command has ended
            pass

    def begun(self):
        if self.process.poll() is not None:
            sys.exit(f"{self.process.args} ended: {self.output}")
        return self.done > 0

    def rate(self, seconds):
        before = self.done, time.perf_counter()
        time.sleep(seconds)
        self.begun()
        return (self.done - before[0]) / (time.perf_counter() - before[1])

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Repeated:
    """nsvq_bench ops again and again: its medians in milliseconds, with the times at which they were known."""

    def __init__(self, words, environment):
        self.words, self.environment = words, environment
        self.found, self.ended, self.process, self.output = [], False, None, ""
        threading.Thread(target=self.repeat, daemon=True).start()

    def repeat(self):
        while not self.ended:
            self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                            env=self.environment, start_new_session=True)
            self.output = self.process.communicate()[0]
            if self.process.returncode == 0:
                row = [line for line in self.output.splitlines() if line.startswith("| ns_quantize")][-1]
                self.found.append((time.perf_counter(), float(row.split("|")[4])))
            elif not self.ended:
                self.ended = True
                print(f"{self.words} failed: {self.output}", file=sys.stderr)

    def begun(self):
        if self.ended:
            sys.exit(1)
        return self.process is not None

    def rate(self, seconds):
        begin = time.perf_counter()
        time.sleep(seconds)
        while not any(at > begin for at, _ in self.found):
            self.begun()
            time.sleep(0.1)
        return 1000 / statistics.median(ms for at, ms in self.found if at > begin)

    def end(self):
        self.ended = True
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def commands(build, data, folder):
    """What starts process NUMBER of each kind, in a folder of its own."""
    nsvq, quickstart = str(build / "nsvq"), str(HERE.parent / "configs" / "quickstart.yaml")
    train = [nsvq, "train", quickstart, f"data.train={data}", "train.eval_every=0", "train.samples_every=0",
             "checkpoint.every_steps=10000000", "--new"]
    model = folder / "model"
    made = subprocess.run(train + ["train.epochs=1", "train.steps=2", "schedule.phases=[stage1]", "--run", str(model)],
                          capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(made.stderr)
    return {
        "train": ("steps/s", lambda number: train + ["train.epochs=100000", "--run", str(folder / f"run-{number}")]),
        "tokenize": ("images/s", lambda number: [nsvq, "tokenize", str(model), "--data", data,
                                                 "--out", str(folder / f"tokens-{number}")]),
        "eval": ("batches/s", lambda number: [nsvq, "eval", str(model), "--data", data, "--on-training-images",
                                              "--metrics", "psnr,ssim"]),
        "ops": ("calls/s", lambda number: [str(build / "nsvq_bench"), "ops", "--only", "ns_quantize + backward",
                                           "--sizes", "K 1024", "--rounds", "100"]),
    }


def measure(words_of, count, kind, seconds, environment):
    """The rate of each of `count` processes."""
    runner = Repeated if kind == "ops" else OnTerminal
    running = [runner(words_of(number), environment) for number in range(count)]
    try:
        while not all([one.begun() for one in running]):
            time.sleep(0.1)
        time.sleep(SETTLED)
        rates = [None] * count

        def watch(number):
            rates[number] = running[number].rate(seconds)

        threads = [threading.Thread(target=watch, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if None in rates:
            sys.exit("a process ended while it was measured")
        return rates
    finally:
        for one in running:
            one.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("seconds", type=float, nargs="?", default=15)
    parser.add_argument("--data", default=DRAWN)
    parser.add_argument("--kinds", default="train,tokenize,eval,ops")
    parser.add_argument("--env", action="append", default=[])
    arguments = parser.parse_args()
    environment = os.environ | dict(pair.split("=", 1) for pair in arguments.env)
    print("kind,unit,beside,process,rate,share of alone", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        all_commands = commands(arguments.build.resolve(), arguments.data, folder)
        for kind in arguments.kinds.split(","):
            unit, words_of = all_commands[kind]
            number = 0
            alone = None
            for beside, count in (("nothing", 1), ("one of its kind", 2), ("two of its kind", 3), ("a busy thread", 1)):
                busy = beside == "a busy thread" and subprocess.Popen([sys.executable, "-c", "while True: pass"])
                first = number
                try:
                    rates = measure(lambda i: words_of(first + i), count, kind, arguments.seconds, environment)
                finally:
                    if busy:
                        busy.kill()
                        busy.wait()
                number += count
                alone = alone or rates[0]
                for i, rate in enumerate(rates):
                    print(f"{kind},{unit},{beside},{i + 1},{rate:.4g},{rate / alone:.2f}", flush=True)


if __name__ == "__main__":
    main()
