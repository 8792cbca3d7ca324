"""The program `nsvq`, run from Python: training with its log as it is written."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import IO, Any

from nsvq._runs import Run, read_run

__all__ = ["Run", "Training", "find_program", "read_run", "run_program", "train"]

STOPPED = (130, 143)  # exit codes after signals


def find_program() -> str:
    """The program: $NSVQ_PROGRAM, else `nsvq` on the PATH, else build/release/nsvq of the source tree around this package."""
    given = os.environ.get("NSVQ_PROGRAM")
    if given:
        if not os.access(given, os.X_OK):
            raise ValueError(f"NSVQ_PROGRAM={given} is no program; point it at nsvq or unset it")
        return given
    if found := shutil.which("nsvq"):
        return found
    for folder in pathlib.Path(__file__).resolve().parents:
        built = folder / "build" / "release" / "nsvq"
        if (folder / "nsvq" / "README.md").is_file() and os.access(built, os.X_OK):
            return str(built)
    raise ValueError("the program nsvq is not found; build it by `make build` in nsvq's source tree, "
                     "then put it on the PATH or set NSVQ_PROGRAM to build/release/nsvq")


def failure(code: int, line: str) -> Exception:
    """What the program's last line says: ValueError for what the user can put right (exit code 2), else RuntimeError."""
    line = line.removeprefix("nsvq: ") or f"nsvq ended with exit code {code}, without a word; below 0 it is a signal's number"
    return ValueError(line) if code == 2 else RuntimeError(line)


def run_program(*words: str | os.PathLike) -> str:
    """Runs a command of the program and returns what it prints; raises its one line where it fails."""
    done = subprocess.run([find_program(), *map(str, words)], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("nsvq: ")]
        raise failure(done.returncode, lines[-1] if lines else "")
    return done.stdout


def setting_words(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Settings as words of a command line; sections may be nested: {"train": {"epochs": 2}} is train.epochs=2."""
    words = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            words += setting_words(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={setting_text(value)}")
    return words


def setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json.dumps(item) if isinstance(item, str) else setting_text(item) for item in value) + "]"
    return str(value)


def read_output(output: IO[bytes], last: collections.deque[str], echo: bool) -> None:
    for line in output:
        last.append(line.decode(errors="replace").rstrip("\n"))
        if echo:
            print(last[-1], file=sys.stderr, flush=True)


class Stopper:
    """Asks a process to save and end, once. While it lives, the first Ctrl-C does that and no more; the second one ends the
    process at once and is a KeyboardInterrupt. It asks by SIGTERM, which no shell makes its children ignore."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self.process, self.asked, self.before = process, False, None
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self.on_interrupt)

    def on_interrupt(self, number: int, frame: object) -> None:
        if self.asked or self.process.poll() is not None:
            self.process.kill()
            raise KeyboardInterrupt
        self.ask()

    def ask(self) -> None:
        if not self.asked and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.asked = True

    def stop(self) -> None:
        """Asks and waits."""
        self.ask()
        self.process.wait()
        if self.before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.before)
            self.before = None


class Training:
    """A training in a process of its own. Iterating gives the lines of metrics.jsonl as they are written, as dicts.

    `message` is the program's last line in the end: the verdict, or how to resume. `finished` says which of the two. Ctrl-C
    asks the process to save and end; lines go on until it has, and the iteration ends. A second Ctrl-C ends it at once. A loop
    that is left early stops the training, which saves."""

    def __init__(self, words: list[str], run: pathlib.Path, echo: bool):
        self.run, self.message, self.finished = run, "", False
        self._log = LogTail(run / "metrics.jsonl")
        self._last: collections.deque[str] = collections.deque(maxlen=40)
        # A session of its own: a terminal's Ctrl-C reaches this process alone, which passes it on once.
        self._process = subprocess.Popen([find_program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        self._reader = threading.Thread(target=read_output, args=(self._process.stdout, self._last, echo), daemon=True)
        self._reader.start()
        self._stopper = Stopper(self._process)
        weakref.finalize(self, self._stopper.stop)  # also when Python ends

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            while True:
                ended = self._process.poll() is not None  # what was written before this is read below
                yield from self._log.new_lines()
                if ended:
                    break
                time.sleep(0.05)
        finally:
            self.stop()
        code = self._process.returncode
        if code not in (0, *STOPPED):
            raise failure(code, self.message)

    def stop(self) -> None:
        """Asks the process to save and end, as Ctrl-C does, and waits for it. The same train() resumes the run."""
        self._stopper.stop()
        self._reader.join()
        code = self._process.returncode
        lines = [line.strip() for line in self._last if line.strip()]
        if code not in (0, *STOPPED):
            lines = [line for line in lines if line.startswith("nsvq: ")]
        self.message = " ".join(lines[-2:] if code in STOPPED else lines[-1:])  # "stopped; to resume:" and the command
        self.finished = code == 0

    def wait(self) -> Training:
        """Waits for the end. Raises as iterating does."""
        for _ in self:
            pass
        return self


class LogTail:
    """The lines that are appended to a file. What it holds already is left out."""

    def __init__(self, path: pathlib.Path):
        self.path, self.offset, self.rest = path, 0, b""
        self.offset = self.size()

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def new_lines(self) -> Iterator[dict[str, Any]]:
        size = self.size()
        if size < self.offset:  # a run that is resumed forgets what came after its checkpoint
            self.offset, self.rest = size, b""
        if size == self.offset:
            return
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            text = self.rest + file.read(size - self.offset)
        self.offset = size
        *lines, self.rest = text.split(b"\n")
        for line in lines:
            yield json.loads(line)


def train(recipe: str | os.PathLike, settings: Mapping[str, Any] | None = None, *, run: str | os.PathLike,
          resume: bool = False, echo: bool = False) -> Training:
    """Trains by `nsvq train` in another process and gives its log, line by line:

        for line in nsvq.train("configs/quickstart.yaml", {"train.epochs": 4}, run="runs/first"):
            if line["kind"] == "eval":
                print(line["epoch"], line["psnr"])

    `recipe` is a YAML file or a run's folder; `settings` override it. `run` is the folder of the run: an unfinished one with
    equal settings goes on, and gives the lines that are new. `resume` fails where there is none to go on with. `echo` shows the
    program's own log. ValueError for settings that do not fit, RuntimeError for a training that failed; each is one line."""
    words = ["train", os.fspath(recipe), *setting_words(settings or {}), "--run", os.fspath(run)]
    return Training(words + ["--resume"] * resume, pathlib.Path(run), echo)
