"""Faults in runs of several processes. faults.py NSVQ [COUNT [SEED]]

Injects COUNT (40) faults of the kinds below at random moments into runs of 2 and 4 processes on CPUs, and prints a line for
each: what happened, the step, seconds until all other processes had ended, whether resuming gives the weights of the run that
was never disturbed, and the line that rank 0 (or, if it is the lost one, rank 1) printed. Every process that was not itself
hit must end with exit code 3 and a line that names a rank and a step (Ctrl-C: all with 130), in time; none is left; the last
checkpoint opens. Needs Linux; the full disk needs the right to mount, and is a limit on file sizes without it.
"""

import ctypes
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ranks import ENDED, NSVQ, Ranks, newest_folder, newest_state, tensors, torchrun_words, train_words, wait_for

# A shell may have started this with SIGINT ignored, which the program would leave so.
signal.signal(signal.SIGINT, signal.default_int_handler)

TIMEOUT = 10  # dist.timeout of these runs
CLOSED = 10  # seconds within which a closed connection is noticed
CHANGES = {"train__batch_size": 4, "train__epochs": 10, "checkpoint__every_steps": 5, "dist__timeout": TIMEOUT,
           "schedule__freeze_epoch": 2, "optimizer__lr": "1e-3"}
SYS_PIDFD_GETFD = 438


def weights_hash(run):
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors(run).items()):
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:12]


def connections(pid):
    """Numbers of the process's open TCP connections to other ranks."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(entry).startswith("socket:"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def close_connection(pid, generator):
    """Shuts a connection of the process down, as a network that goes away would: by a copy of its descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    numbers = connections(pid)
    generator.shuffle(numbers)
    for number in numbers:
        copy = libc.syscall(SYS_PIDFD_GETFD, process, number, 0)
        if copy < 0:
            continue
        one = socket.socket(fileno=copy)
        try:
            if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
                continue
            peer = one.getpeername()
            one.shutdown(socket.SHUT_RDWR)
            return peer
        except OSError:
            continue  # it listens
        finally:
            one.close()
    raise AssertionError("no connection to close")


def spoil_weight(pid, run):
    """Writes NaN over a weight of the frozen encoder, which is in memory as in the checkpoint."""
    pattern = tensors(run)["model.encoder.conv_in.weight"].numpy().tobytes()[:256]
    nan = b"\x00\x00\xc0\x7f" * (len(pattern) // 4)
    hits = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            first, last = (int(part, 16) for part in span.split("-"))
            try:
                memory.seek(first)
                text = memory.read(last - first)
            except (OSError, ValueError, OverflowError):
                continue
            place = text.find(pattern)
            while place >= 0:
                memory.seek(first + place)
                memory.write(nan)
                hits += 1
                place = text.find(pattern, place + 1)
    assert hits > 0, "the weight was not found in memory"


class Disk:
    """A small file system for the run, where we may mount one."""

    def __init__(self, folder):
        self.path = Path(folder) / "disk"
        self.path.mkdir()
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "nsvq-faults", str(self.path)],
                                      capture_output=True).returncode == 0

    def fill(self, pid):
        if not self.mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, 4096))
            return
        with open(self.path / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
            except OSError:
                pass

    def make_room(self):
        (self.path / "filler").unlink(missing_ok=True)

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.path)])


def inject(kind, process, run, disk, generator):
    """Does it to a rank's process; how many seconds the others have."""
    if kind == "killed":
        process.kill()
        return CLOSED
    if kind == "stopped":
        process.send_signal(signal.SIGSTOP)
        return TIMEOUT + 5
    if kind == "connection closed":
        close_connection(process.pid, generator)
        return CLOSED
    if kind == "disk full":
        disk.fill(process.pid)
        return TIMEOUT
    if kind == "out of memory":
        used = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * 4096
        resource.prlimit(process.pid, resource.RLIMIT_AS, (used, used))
        return TIMEOUT
    if kind == "NaN":
        spoil_weight(process.pid, run)
        return TIMEOUT
    raise AssertionError(kind)


KINDS = ["killed", "stopped", "connection closed", "disk full", "out of memory", "NaN", "Ctrl-C"]


def undisturbed(folder, count):
    run = Path(folder) / f"undisturbed-{count}"
    ranks = Ranks(count, train_words(run, **CHANGES), folder)
    assert ranks.codes() == [0] * count, ranks.lines(0)[-3:]
    return weights_hash(run)


def wait_for_moment(kind, run, count, generator):
    """A moment in training; with a frozen encoder where its weights are to be found."""
    frozen = CHANGES["schedule__freeze_epoch"] * 64 // (4 * count) + 5 if kind == "NaN" else 1
    wait_for(lambda: newest_folder(run) and int(newest_folder(run).name[5:]) >= frozen, "a checkpoint")
    time.sleep(generator.uniform(0, 0.5))


def interrupt_launcher(run, count, folder, generator):
    """Ctrl-C on `nsvq train --gpus`: the run is saved, as that of one process is."""
    log = (Path(folder) / "launcher.log").open("w+")
    launcher = subprocess.Popen([*train_words(run, **CHANGES), "--gpus", str(count)], stdout=log, stderr=subprocess.STDOUT,
                                start_new_session=True)
    wait_for_moment("Ctrl-C", run, count, generator)
    start = time.monotonic()
    launcher.send_signal(signal.SIGINT)
    code = launcher.wait(timeout=ENDED)
    seconds = time.monotonic() - start
    text = (Path(folder) / "launcher.log").read_text()
    assert code == 130 and "to resume" in text, text[-500:]
    assert not processes_of(run), "processes are left"
    return seconds, "stopped; to resume: ..."


def processes_of(run):
    """Processes whose command names the run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(run).encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def hit_a_rank(kind, run, count, folder, disk, generator):
    # Rank 0 may save what was written over its memory before it meets it.
    hit = 0 if kind == "disk full" else generator.randrange(1 if kind == "NaN" else 0, count)
    ranks = Ranks(count, train_words(run, **CHANGES), folder)
    wait_for_moment(kind, run, count, generator)
    start = time.monotonic()
    allowed = inject(kind, ranks.processes[hit], run, disk, generator)
    if kind in ("disk full", "out of memory"):  # which come when something is next written or taken
        wait_for(lambda: any(process.poll() is not None for process in ranks.processes), "the end of a process")
        start = time.monotonic()
    others = [rank for rank in range(count) if rank != hit]
    codes = [ranks.processes[rank].wait(timeout=ENDED) for rank in others]
    seconds = time.monotonic() - start
    if kind == "stopped":
        ranks.processes[hit].kill()
    ranks.codes()
    if kind == "connection closed" and codes == [0] * len(others):
        return None  # it came at the end, or to a connection that was not needed again
    lines = [ranks.lines(rank)[-1] for rank in others]
    assert codes == [3] * len(others), (codes, lines)
    for line in lines:
        assert re.search(r"rank \d", line) and "step" in line, line
    assert seconds < allowed, f"{seconds:.1f} s of {allowed}"
    assert not processes_of(run), "processes are left"
    return hit, seconds, lines[0]


def one_fault(kind, count, folder, expected, generator):
    disk = Disk(folder) if kind == "disk full" else None
    run = (disk.path if disk else Path(folder)) / "run"
    try:
        if kind == "Ctrl-C":
            hit = "-"
            seconds, line = interrupt_launcher(run, count, folder, generator)
        else:
            for _ in range(5):
                shutil.rmtree(run, ignore_errors=True)
                done = hit_a_rank(kind, run, count, folder, disk, generator)
                if done:
                    break
            assert done, f"{kind}: no rank noticed it in 5 runs"
            hit, seconds, line = done
        if disk:
            disk.make_room()
        opened = subprocess.run([NSVQ, "info", str(run)], capture_output=True, text=True)
        assert opened.returncode == 0, opened.stderr
        step = newest_state(run)["step"]
        again = Ranks(count, [*train_words(run, **CHANGES), "--resume"], folder)
        assert again.codes() == [0] * count, again.lines(0)[-3:]
        equal = weights_hash(run) == expected
        assert equal, "the resumed run ended with different weights"
    finally:
        if disk:
            disk.close()
    return hit, step, seconds, equal, line


def restarts_by_torchrun(folder, expected):
    """A killed rank under --max-restarts: torchrun starts all again, and they go on from the last checkpoint."""
    run = Path(folder) / "restarted"
    log = (Path(folder) / "torchrun.log").open("w+")
    launcher = subprocess.Popen(torchrun_words(2, train_words(run, **CHANGES), ["--max-restarts", "2"]), stdout=log,
                                stderr=subprocess.STDOUT)
    wait_for(lambda: newest_folder(run), "a checkpoint")
    ranks = [pid for pid in processes_of(run) if Path(f"/proc/{pid}/exe").resolve().name == "nsvq"]
    os.kill(ranks[-1], signal.SIGKILL)
    code = launcher.wait(timeout=ENDED)
    text = (Path(folder) / "torchrun.log").read_text()
    assert code == 0 and "resuming" in text, text[-2000:]
    return weights_hash(run) == expected


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        expected = {ranks: undisturbed(folder, ranks) for ranks in (2, 4)}
    print(f"{'fault':18} {'ranks':>5} {'hit':>3} {'saved':>5} {'seconds':>7} {'resume':7} line")
    failures = 0
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    generator.shuffle(kinds)
    for kind in kinds:
        ranks = generator.choice((2, 4))
        with tempfile.TemporaryDirectory() as folder:
            try:
                hit, step, seconds, equal, line = one_fault(kind, ranks, folder, expected[ranks], generator)
                print(f"{kind:18} {ranks:5} {hit:>3} {step:5} {seconds:7.1f} {'equal' if equal else 'OTHER':7} {line}", flush=True)
            except Exception as error:  # the table goes on
                failures += 1
                print(f"{kind:18} {ranks:5} FAILED: {error}", flush=True)
                for pid in processes_of(folder):
                    os.kill(pid, signal.SIGKILL)
    with tempfile.TemporaryDirectory() as folder:
        print(f"torchrun --max-restarts 2, a rank killed: {'equal' if restarts_by_torchrun(folder, expected[2]) else 'OTHER'}")
    print(f"{count - failures} of {count} as they should be")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
