"""Runs docs/examples/sample_latents.py: an exported diffusion model and its tokenizer load into the PyTorch modules.

Run by ctest: run.sh load_diffusion.py NSVQ, the program.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from safetensors.numpy import load_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "nn" / "golden"
sys.path.insert(0, str(GOLDEN))
from autoencoder import Autoencoder
from unet import Unet

DATA = """
data: {train: "builtin:dead-leaves?size=16&count=16", val: "builtin:dead-leaves?size=16&count=4&seed=1", size: 16}
train: {steps: 2, batch_size: 8, samples: 2}
"""
TOKENIZER = DATA + """
model: {width: 8, multipliers: [1, 2, 2], blocks: 1, latent_dim: 4}
quantizer: {type: vq, codes: 32}
"""
DIFFUSION = DATA + """
unet: {width: 8, multipliers: [1, 2], blocks: 1, attention: [1], heads: 2}
diffusion: {schedule: sqrt-linear, prediction: v}
sample: {steps: 3}
"""


def steps_lead_back(block, config_file):
    """With the network's output for data that are one point, the steps of the block lead to that point."""
    point, network = 0.7, "unet(x, torch.full((len(x),), time))"
    assert network in block
    stored = config_file.read_text()
    config = json.loads(stored)
    for prediction in ("eps", "v"):
        config["diffusion"]["prediction"] = prediction
        config_file.write_text(json.dumps(config))

        def output(x, a):
            eps = (x - a**0.5 * point) / (1 - a) ** 0.5
            return eps if prediction == "eps" else a**0.5 * eps - (1 - a) ** 0.5 * point

        names = {"output": output}
        exec(block.replace(network, "output(x, abar[time])"), names)
        torch.testing.assert_close(names["x"], torch.full_like(names["x"], point), atol=1e-4, rtol=0)
        times = names["times"]
        count, steps = config["diffusion"]["times"], names["steps"]
        assert times[0] == count - 1 and times[-1] == count // steps - 1 and len(set(times)) == steps, times
    config_file.write_text(stored)


def main(nsvq):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.yaml").write_text(TOKENIZER)
        (folder / "diffusion.yaml").write_text(DIFFUSION)
        run = lambda *words: subprocess.run([nsvq, *words], cwd=folder, check=True, capture_output=True)
        run("train", "tokenizer.yaml", "--run", "tokenizer")
        run("diffusion", "train", "diffusion.yaml", "diffusion.tokenizer=tokenizer", "--run", "run")
        run("diffusion", "export", "run", "--out", "model")

        example = (ROOT / "docs" / "examples" / "sample_latents.py").read_text()
        assert example.count('"tests/nn/golden"') == 1
        names = {}
        block = example.replace('"tests/nn/golden"', repr(str(GOLDEN)))
        os.chdir(folder)
        exec(block, names)
        steps_lead_back(block, folder / "model/config.json")
        os.chdir(ROOT)
        images = names["images"]
        assert images.shape == (4, 3, 16, 16) and images.isfinite().all() and images.std() > 0.01, images

        config = json.loads((folder / "model/config.json").read_text())
        tensors = {k: torch.from_numpy(v) for k, v in load_file(folder / "model/model.safetensors").items()}
        unet = Unet(config["unet"], config["nsvq"]["channels"], config["nsvq"]["labels"])
        unet.load_state_dict({k[5:]: v for k, v in tensors.items() if k.startswith("unet.")}, strict=True)
        output = unet(torch.randn(2, 4, 4, 4), torch.tensor([0, 999]))
        assert output.shape == (2, 4, 4, 4) and output.isfinite().all() and output.abs().sum() > 0
        assert tensors["latent_mean"].shape == (4,) and (tensors["latent_deviation"] > 0).all()

        own = json.loads((folder / "model/tokenizer/config.json").read_text())
        weights = {k: torch.from_numpy(v) for k, v in load_file(folder / "model/tokenizer/model.safetensors").items()}
        weights.pop("quantizer.codebook")
        Autoencoder(own["model"]).load_state_dict(weights, strict=True)

        scheduler = json.loads((folder / "model/scheduler/scheduler_config.json").read_text())
        assert scheduler["beta_schedule"] == "scaled_linear", scheduler
        assert scheduler["prediction_type"] == "v_prediction", scheduler
        assert scheduler["set_alpha_to_one"] is True, scheduler  # DDIMScheduler's alone
        run("diffusion", "train", "diffusion.yaml", "diffusion.tokenizer=tokenizer", "sample.sampler=dpm-solver++", "sample.last=first", "--run", "other")
        run("diffusion", "export", "other", "--out", "dpm")
        scheduler = json.loads((folder / "dpm/scheduler/scheduler_config.json").read_text())
        assert scheduler["final_sigmas_type"] == "sigma_min" and "set_alpha_to_one" not in scheduler, scheduler
    print("an exported diffusion model and its tokenizer load in PyTorch")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
