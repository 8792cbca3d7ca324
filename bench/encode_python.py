"""Images per second of nsvq.Tokenizer.encode against the program's, of images that are in memory:

    bench/encode_python.py NSVQ [--recipe configs/quickstart.yaml] [--device cpu] [--batch-size N] [--rounds 5] [SETTING...]

The program encodes in `nsvq bench tokenize`. Both are given one model, which one step of the recipe makes, and take turns, with
as many threads; the figures are medians. Needs the package nsvq.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import nsvq

ROOT = pathlib.Path(__file__).parents[1]


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")


def make_model(program, recipe, settings, folder):
    """One step makes a model; how well it is trained does not matter here."""
    call(program, "train", recipe, "train.epochs=1", "train.steps=1", "data.train=builtin:dead-leaves?count=64",
         "data.val=builtin:dead-leaves?count=2", "schedule.phases=[stage1]", *settings, "--run", folder / "run")
    return folder / "run"


def program_rate(program, model, device, batch, folder):
    figures = folder / "figures.json"
    call(program, "bench", "tokenize", model, "--device", device, "--batch-size", str(batch), "--rounds", "5", "--json", figures)
    rate = json.loads(figures.read_text())["images_per_second"]
    figures.unlink()
    return rate


def package_rate(tokenizer, images, repeats=5):
    """With images as bytes, as a loader gives them, and tokens on the CPU, as the program has them."""
    seconds = []
    for _ in range(3 + repeats):
        start = time.perf_counter()
        tokenizer.encode(images).cpu()
        seconds.append(time.perf_counter() - start)
    return len(images) / statistics.median(seconds[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program"), parser.add_argument("settings", nargs="*")
    parser.add_argument("--recipe", default=ROOT / "configs" / "quickstart.yaml")
    parser.add_argument("--device", default="cpu"), parser.add_argument("--batch-size", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    words = parser.parse_intermixed_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(words.program, words.recipe, words.settings, folder)
        tokenizer = nsvq.Tokenizer.from_pretrained(model, device=words.device)
        config = tokenizer.config
        batch, side = words.batch_size or config["train"]["batch_size"], config["data"]["size"]
        images = torch.randint(256, (batch, 3, side, side), dtype=torch.uint8, device=words.device)
        rates = []
        for turn in range(words.rounds):
            theirs, ours = program_rate(words.program, model, words.device, batch, folder), package_rate(tokenizer, images)
            rates.append((theirs, ours, ours / theirs))
            print(f"turn {turn + 1}: program {theirs:.1f}, package {ours:.1f} images/s, {ours / theirs:.3f} of the program's",
                  flush=True)
        print(f"{words.device}, batches of {batch} images of {side}x{side}, {torch.get_num_threads()} threads")
        for name, choose in (("median", statistics.median), ("fastest", max)):
            theirs, ours = (choose(column) for column in list(zip(*rates))[:2])
            print(f"{name} of {words.rounds} turns: program {theirs:.1f}, package {ours:.1f} images/s, {ours / theirs:.3f}")


if __name__ == "__main__":
    main()
