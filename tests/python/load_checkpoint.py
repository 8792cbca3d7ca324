"""Loads a trained model's file into the plain PyTorch modules and reconstructs the same pictures.

Run by ctest: run.sh load_checkpoint.py NSVQ, the program.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn" / "golden"))
from autoencoder import Autoencoder

MODEL = {"width": 8, "multipliers": [1, 2, 2], "blocks": 2, "latent_dim": 8, "attention": [2], "mid_attention": True}
RECIPE = f"""
data: {{train: "builtin:dead-leaves?size=32&count=32", val: "builtin:dead-leaves?size=32&count=4&seed=1", size: 32}}
model: {{width: 8, multipliers: [1, 2, 2], blocks: 2, latent_dim: 8, attention: [2], mid_attention: true}}
quantizer: {{codes: 64}}
optimizer: {{lr: 1e-3, ema_decay: 0.9}}
schedule: {{freeze: epoch, freeze_epoch: 2, warmup_epochs: 1}}
train: {{epochs: 4, batch_size: 8}}
"""


def reconstruct(weights, pixels):
    """pixels [B, H, W, 3] uint8 to the model's reconstruction, uint8."""
    model = Autoencoder(MODEL)
    codebook = weights.pop("quantizer.codebook")
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1
        latents = model.encoder(images)
        flat = latents.permute(0, 2, 3, 1)
        indices = torch.cdist(flat.reshape(-1, flat.shape[-1]), codebook).argmin(1)
        codes = codebook[indices].reshape(flat.shape).permute(0, 3, 1, 2)
        out = model.decoder(codes)
    return ((out.permute(0, 2, 3, 1) + 1) * 127.5).clamp(0, 255).round().to(torch.uint8).numpy()


def main(nsvq):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "recipe.yaml").write_text(RECIPE)
        run, photos, out = folder / "run", folder / "photos", folder / "out"
        subprocess.run([nsvq, "train", folder / "recipe.yaml", "--run", run], check=True, capture_output=True)

        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
        photos.mkdir()
        for i, picture in enumerate(pixels):
            Image.fromarray(picture).save(photos / f"{i}.png")
        subprocess.run([nsvq, "reconstruct", run, "--data", photos, "--out", out], check=True, capture_output=True)
        ours = np.stack([np.asarray(Image.open(out / f"{i}.png")) for i in range(5)])

        file = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name.split("-")[1]))
        with safe_open(file / "model.safetensors", "pt") as tensors:
            assert tensors.metadata()["format"] == "pt"
            weights = {key: tensors.get_tensor(key) for key in tensors.keys()}
        theirs = reconstruct(weights, pixels)
        difference = np.abs(ours.astype(int) - theirs.astype(int))
        print(f"largest difference {difference.max()} of 255, spread of the pictures {theirs.std():.1f}")
        assert difference.max() <= 1
        assert theirs.std() > 1, "a flat picture would prove nothing"

        events = EventAccumulator(str(run))
        events.Reload()
        assert [event.step for event in events.Scalars("eval/psnr")] == [4, 8, 12, 16]
        assert len(events.Scalars("epoch/utilisation")) == 4
        assert len(events.Images("samples")) > 0


main(sys.argv[1])
