"""Images per second of `nsvq tokenize` on a CPU against the same model in eager PyTorch with a DataLoader:

    bench/tokenize_speed.py NSVQ SHARDS [RECIPE=configs/quickstart.yaml] [SETTING...]

Both run on the same JPEG shards (a glob; a few hundred images at least) and cores, with as many threads, in
turns. The time of a run on one image, which is start-up, is taken off on both sides. CPU seconds count all
threads and processes, so that other work on the machine does not matter. Needs torch, numpy, Pillow, safetensors.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def measure(command):
    """Wall and CPU seconds of a command and of the processes it waited for."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command}: {errors.decode()}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def make_model(nsvq, shards, recipe, settings, folder):
    """One step makes a model; how well it is trained does not matter here."""
    run = folder / "run"
    measure([nsvq, "train", recipe, "train.epochs=1", "train.steps=1", f"data.train={shards}",
             "data.val=builtin:dead-leaves?count=2", "schedule.phases=[stage1]", *settings, "--run", run])
    measure([nsvq, "export", run, "--out", folder / "model.safetensors"])
    return folder / "model.safetensors"


def main(nsvq, shards, recipe=HERE.parent / "configs" / "quickstart.yaml", *settings):
    from safetensors.torch import load_file
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(nsvq, shards, recipe, settings, folder)
        for turn in range(3):
            tokens, theirs = folder / f"tokens-{turn}", folder / f"theirs-{turn}.safetensors"
            ours = [nsvq, "tokenize", model, "--device", "cpu", "--data", shards, "--shard-size", "10000000"]
            eager = [sys.executable, HERE / "tokenize_torch.py", model, shards]
            runs = {"nsvq": (ours + ["--out", folder / f"one-{turn}", "--limit", "1"], ours + ["--out", tokens]),
                    "PyTorch": (eager + [theirs, "1"], eager + [theirs])}
            rates = {}
            for side, (one, all_of_them) in runs.items():
                start_up, whole = measure(one), measure(all_of_them)
                rates[side] = [whole[i] - start_up[i] for i in range(2)]
            a = load_file(tokens / "tokens-00000.safetensors")["tokens"].long()
            b = load_file(theirs)["tokens"]
            for i, unit in enumerate(("images/s", "images per CPU second")):
                rate = {side: (len(b) - 1) / seconds[i] for side, seconds in rates.items()}
                print(f"nsvq {rate['nsvq']:.1f}, PyTorch {rate['PyTorch']:.1f} {unit}: "
                      f"{rate['nsvq'] / rate['PyTorch']:.2f}x")
            print(f"{100 * (a == b).double().mean().item():.3f}% of the tokens are equal", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
