"""Runs that are killed twice and resumed leave the weights of undisturbed ones: resume_bits.py NSVQ [--device cuda] [--steps 200] [--jobs 2] [NAME...]

Each setting below is trained for 200 steps by captured CUDA graphs where there is a GPU, and by eager steps. Prints a line for each.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
# 16 steps an epoch of the schedule: frozen at step 96, warm-up to 128, then stage 2.
COMMON = """data.train=builtin:dead-leaves?size=32&count=128 data.val=builtin:dead-leaves?size=32&count=16&seed=1 data.size=32
model.width=16 model.blocks=1 model.latent_dim=32 quantizer.codes=512 loss.perceptual=0 loss.l2=1 optimizer.beta1=0.9
optimizer.beta2=0.99 optimizer.ema_decay=0.98 schedule.epoch_steps=16 schedule.freeze=epoch schedule.freeze_epoch=6
schedule.warmup_epochs=2 schedule.ramp_epochs=1 replacement.exempt_epochs=1 train.batch_size=8 train.log_every=10 train.eval_every=0
train.samples_every=0 train.deterministic=true drift.images=8 checkpoint.keep=1 adversarial.weight=0 optimizer.lr=1e-3
optimizer.schedule.warmup_steps=0""".split()
GAN = "adversarial.weight=0.1 adversarial.start_step=30"
SETTINGS = {
    "plain": "",
    "scale": "optimizer.scale.encoder=0.5 optimizer.scale.decoder=2 optimizer.scale.quantizer=10",
    "cosine": "optimizer.schedule.shape=cosine optimizer.schedule.warmup_steps=20 optimizer.schedule.final_share=0.1",
    "linear": "optimizer.schedule.shape=linear optimizer.schedule.warmup_steps=20 optimizer.schedule.final_share=0.1",
    "adversarial": GAN,
    "adversarial rates": GAN + " optimizer.scale.discriminator=0.5 adversarial.schedule.shape=cosine",
    "adaptive adversarial weight": GAN + " adversarial.adaptive=true",
    "weight decay": "optimizer.weight_decay=0.05",
    "clipping": "optimizer.clip_norm=0.5",
    "replacement each 10 steps": "replacement.every_steps=10",
    "plateau": "schedule.freeze=plateau schedule.patience=1 schedule.earliest_epoch=4 schedule.latest_epoch=8 schedule.smoothing=0.5",
    "plateau on validation": "schedule.freeze=plateau schedule.patience=1 schedule.commitment=validation schedule.latest_epoch=8",
    "no freeze": "schedule.freeze=never",
    "normal codes": "quantizer.init=normal",
    "no quantizer": "quantizer.type=none schedule.phases=[stage1]",
    "fvq": "quantizer.type=fvq quantizer.codes=576",
    "cvq": "quantizer.type=cvq",
    "weights of another run": "train.init_from={}",
    "rotation": "quantizer.rotation=true",
    "fp32": "train.precision=fp32",
}


def words(nsvq, run, settings, device, graphs, steps, first):
    given = [f"device={device}", f"train.graphs={graphs}", f"train.steps={steps}", f"checkpoint.every_steps={steps // 10}",
             *settings.format(first).split()]
    keys = {word.split("=", 1)[0] for word in given}
    common = [word for word in COMMON if word.split("=", 1)[0] not in keys]
    return [nsvq, "train", str(ROOT / "configs/table1/nsvq.yaml"), *common, *given, "--run", str(run)]


def last_step(run):
    """Step of the newest checkpoint; 0 before the first."""
    return max((int(path.name[5:]) for path in (run / "checkpoints").glob("step-*") if path.name[5:].isdigit()), default=0)


def train(command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.splitlines()[-1:]


def train_with_kills(command, run, steps):
    """Killed by SIGKILL when checkpoints of three and seven tenths of the steps are seen."""
    kills = 0
    for share in (3, 7):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and last_step(run) < steps * share // 10:
            time.sleep(0.005)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
    train(command)
    return kills


def tensors(run):
    folder = run / "checkpoints" / f"step-{last_step(run)}"
    return {f"{file.stem}/{name}": tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def compare(options, first, name, graphs):
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        command = lambda run: words(options.nsvq, run, SETTINGS[name], options.device, graphs, options.steps, first)
        train(command(whole))
        kills = train_with_kills(command(killed), killed, options.steps)
        expected, found = tensors(whole), tensors(killed)
    assert expected and expected.keys() == found.keys(), expected.keys() ^ found.keys()
    different = [key for key, tensor in expected.items() if not tensor.equal(found[key])]
    verdict = f"{len(expected)} tensors equal" if not different else f"{len(different)} tensors differ, first {different[0]}"
    return f"{name}, {'captured' if graphs == 'true' else 'eager'}: {kills} kills, {verdict}", bool(different) or kills == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nsvq")
    parser.add_argument("names", nargs="*", default=list(SETTINGS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_intermixed_args()
    modes = ["false"] if options.device == "cpu" else ["true", "false"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        first = Path(folder) / "first"
        train(words(options.nsvq, first, "", options.device, "false", 40, ""))
        pairs = [(name, graphs) for name in options.names for graphs in modes]
        failed = False
        for line, wrong in pool.map(lambda pair: compare(options, first, *pair), pairs):
            print(line, flush=True)
            failed |= wrong
    sys.exit(failed)


main()
