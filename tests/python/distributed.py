"""Several processes: real torchrun, real signals. distributed.py NSVQ

Ranks train what one process with the larger batch trains, up to the order of sums; what is killed, stopped or fails ends
all of them with exit code 3 and a line that names the rank; a run goes on with another number of processes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
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


def tensors(run):
    folders = sorted((Path(run) / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    return load_file(folders[-1] / "training.safetensors")


def largest_difference(one, other):
    """Of any tensor, relative to its largest value."""
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    worst = 0.0
    for name, tensor in one.items():
        difference = (tensor.double() - other[name].double()).abs().max()
        worst = max(worst, float(difference / tensor.double().abs().max().clamp_min(1e-12)))
    return worst


def torchrun(count, words):
    python = Path(torch.__file__).parents[4] / "bin/python3"
    command = [str(python if python.exists() else sys.executable), "-m", "torch.distributed.run", "--no-python",
               "--nproc-per-node", str(count), "--standalone", "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDED)


def wait_for(condition, what):
    for _ in range(ENDED * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"did not come: {what}")


def test_ranks_train_what_one_process_does(folder):
    # Through all phases, with replacement. The learning rate is small, so that differences in the order of sums do not
    # grow by the steps that follow.
    for name, changes in {"nsvq": {}, "ema": {"quantizer__type": "ema"}, "simvq": {"quantizer__type": "simvq"},
                          "adversarial": {"adversarial__weight": 0.1, "adversarial__layers": 1, "adversarial__lecam": 0.01,
                                          "schedule__ramp_epochs": 0}}.items():
        whole = Path(folder) / f"{name}-whole"
        subprocess.run(train_words(whole, train__batch_size=8, **changes), check=True, capture_output=True)
        if name == "nsvq":
            done = torchrun(2, train_words(Path(folder) / "nsvq-2", train__batch_size=4, train__check_ranks=3))
            assert done.returncode == 0, done.stderr
            assert "8 images a step: 2 processes" in done.stderr, done.stderr
        else:
            ranks = Ranks(2, train_words(Path(folder) / f"{name}-2", train__batch_size=4, train__check_ranks=3, **changes), folder)
            assert ranks.codes() == [0, 0], [ranks.lines(0)[-3:], ranks.lines(1)[-3:]]
        parts = tensors(Path(folder) / f"{name}-2")
        expected = tensors(whole)
        if name == "adversarial":  # batch norm sees each rank's images alone; train.check_ranks held
            continue
        difference = largest_difference(expected, parts)
        print(f"{name}: 2 ranks against one process, largest relative difference {difference:.1e}")
        assert difference < 1e-3, difference


def test_accumulation_is_a_larger_batch(folder):
    subprocess.run(train_words(Path(folder) / "large", train__batch_size=8), check=True, capture_output=True)
    subprocess.run(train_words(Path(folder) / "passes", train__batch_size=2, train__accumulate=4), check=True, capture_output=True)
    difference = largest_difference(tensors(Path(folder) / "large"), tensors(Path(folder) / "passes"))
    print(f"4 passes of 2 images against 8 images, largest relative difference {difference:.1e}")
    assert difference < 1e-3, difference


def test_a_lost_rank_ends_all(folder):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for lost in (1, 0):
            run = Path(folder) / f"{number.name}-{lost}"
            words = train_words(run, train__batch_size=4, train__epochs=10000, checkpoint__every_steps=5,
                                dist__timeout=10 if number == signal.SIGSTOP else 60)
            ranks = Ranks(2, words, folder)
            wait_for(lambda: list((run / "checkpoints").glob("step-*")), "a checkpoint")
            ranks.processes[lost].send_signal(number)
            other = 1 - lost
            start = time.monotonic()
            code = ranks.processes[other].wait(timeout=ENDED)
            seconds = time.monotonic() - start
            line = ranks.lines(other)[-1]
            print(f"{number.name} of rank {lost}: the other ended with {code} after {seconds:.1f} s: {line}")
            ranks.processes[lost].kill()
            ranks.codes()
            assert code == 3 and "rank 0" in line and "step" in line, line
            assert subprocess.run([NSVQ, "info", str(run)], capture_output=True).returncode == 0


def test_errors_of_other_ranks_are_told(folder):
    ranks = Ranks(2, train_words(Path(folder) / "bad", train__batch_size=4), folder, ["train.init_from=/no/such/run"])
    assert ranks.codes() == [3, 2], [ranks.lines(0), ranks.lines(1)]
    assert "rank 0: rank 1: " in ranks.lines(0)[-1] and "/no/such/run" in ranks.lines(0)[-1], ranks.lines(0)
    assert "/no/such/run" in ranks.lines(1)[-1], ranks.lines(1)


def test_a_signal_to_one_rank_stops_all(folder):
    run = Path(folder) / "stopped"
    words = train_words(run, train__batch_size=4, train__epochs=10000, checkpoint__every_steps=5)
    ranks = Ranks(2, words, folder)
    wait_for(lambda: list((run / "checkpoints").glob("step-*")), "a checkpoint")
    ranks.processes[1].send_signal(signal.SIGTERM)
    assert ranks.codes() == [143, 143], [ranks.lines(0)[-3:], ranks.lines(1)[-3:]]
    assert any("to resume" in line for line in ranks.lines(0)), ranks.lines(0)


def newest_state(run):
    folders = sorted((Path(run) / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    return json.loads((folders[-1] / "state.json").read_text())


def test_a_run_goes_on_with_another_number_of_processes(folder):
    # 3 epochs of 64 images: stopped after `done` steps of 8 images, it goes on with steps of 4.
    for attempt in range(20):
        run = Path(folder) / f"resized-{attempt}"
        ranks = Ranks(2, train_words(run, train__batch_size=4, checkpoint__every_steps=1), folder)
        wait_for(lambda: list((run / "checkpoints").glob("step-*")), "a checkpoint")
        ranks.processes[0].send_signal(signal.SIGTERM)
        ranks.codes()
        done = newest_state(run)["step"]
        if done % 8 != 0:  # within an epoch
            break
    words = [*train_words(run, train__batch_size=4, checkpoint__every_steps=1), "--resume"]
    resumed = subprocess.run(words, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "8 images a step so far, 4 from now on" in resumed.stderr, resumed.stderr
    expected = done + (64 - 8 * (done % 8)) // 4 + (3 - done // 8 - 1) * 16
    state = newest_state(run)
    print(f"stopped after {done} steps of 8 images, ended after {state['step']} (expected {expected})")
    assert state["step"] == expected and state["epoch"] == 3 and state["finished"], state


def test_gpus_starts_the_processes_itself(folder):
    run = Path(folder) / "started"
    done = subprocess.run([*train_words(run, train__batch_size=4), "--gpus", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stderr


def main():
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (sys.argv[2:] and name not in sys.argv[2:]):
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
        print(f"{name}: passed in {time.monotonic() - start:.0f} s", flush=True)


main()
