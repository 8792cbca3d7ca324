"""Several processes: real torchrun, real signals. distributed.py NSVQ

Ranks train what one process with the larger batch trains, up to the order of sums; what is killed, stopped or fails ends
all of them with exit code 3 and a line that names the rank; a run goes on with another number of processes.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import KINDS, connections, one_fault, undisturbed
from ranks import NSVQ, Ranks, newest_state, tensors, torchrun, train_words, wait_for


def largest_difference(one, other):
    """The largest difference of any tensor, relative to its largest value."""
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    worst = 0.0
    for name, tensor in one.items():
        difference = (tensor.double() - other[name].double()).abs().max()
        worst = max(worst, float(difference / tensor.double().abs().max().clamp_min(1e-12)))
    return worst


def test_ranks_train_what_one_process_does(folder):
    # Through all phases, with replacement; RankEquality in tests/train does it for every quantizer. The learning rate is
    # small, so that differences in the order of sums do not grow by the steps that follow.
    subprocess.run(train_words(Path(folder) / "whole", train__batch_size=8), check=True, capture_output=True)
    done = torchrun(2, train_words(Path(folder) / "parts", train__batch_size=4, train__check_ranks=3))
    assert done.returncode == 0, done.stderr
    assert "8 images a step: 2 processes" in done.stderr, done.stderr
    difference = largest_difference(tensors(Path(folder) / "whole"), tensors(Path(folder) / "parts"))
    print(f"2 ranks against one process, largest relative difference {difference:.1e}")
    assert difference < 1e-3, difference


def test_accumulation_is_a_larger_batch(folder):
    subprocess.run(train_words(Path(folder) / "large", train__batch_size=8), check=True, capture_output=True)
    subprocess.run(train_words(Path(folder) / "passes", train__batch_size=2, train__accumulate=4), check=True, capture_output=True)
    difference = largest_difference(tensors(Path(folder) / "large"), tensors(Path(folder) / "passes"))
    print(f"4 passes of 2 images against 8 images, largest relative difference {difference:.1e}")
    assert difference < 1e-3, difference


def test_faults_end_all_and_the_run_goes_on(folder):
    # One of each kind that faults.py injects at random, which also says what must come of it.
    generator = random.Random(2)
    expected = undisturbed(folder, 2)
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as own:
            hit, step, seconds, equal, line = one_fault(kind, 2, own, expected, generator)
        print(f"{kind}: rank {hit}, the others ended after {seconds:.1f} s: {line}")


def test_an_evaluation_ends_with_a_lost_rank(folder):
    run = Path(folder) / "run"
    subprocess.run(train_words(run, train__batch_size=8, train__epochs=1), check=True, capture_output=True)
    words = [NSVQ, "eval", str(run), "--data", "builtin:dead-leaves?size=32&count=100000&seed=1", "--device", "cpu", "--timeout", "5"]
    ranks = Ranks(2, words, folder)
    wait_for(lambda: connections(ranks.processes[0].pid) and connections(ranks.processes[1].pid), "connections")
    time.sleep(1)
    ranks.processes[1].kill()
    assert ranks.codes() == [3, -signal.SIGKILL], [ranks.lines(0), ranks.lines(1)]
    assert "rank 1" in ranks.lines(0)[-1], ranks.lines(0)


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
