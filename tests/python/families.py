"""The networks of model.family in the exported PyTorch file against those of the programs they come from, written out in
tests/nn/golden/families.py: equal outputs, the published numbers of parameters, and golden values that are those of the script.

Run by ctest: run.sh families.py
"""

import json
import pathlib
import sys

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

GOLDEN = pathlib.Path(__file__).parents[1] / "nn" / "golden"
sys.path.insert(0, str(GOLDEN))
import autoencoder
import families

# Encoder and decoder without codebooks.
TAMING = {"family": "taming", "multipliers": [1, 1, 2, 2, 4], "latent_dim": 256, "attention": [4], "mid_attention": True}
VQ8 = {"multipliers": [1, 2, 2, 4], "attention": [3]}
PUBLISHED = {
    "taming f16, 1,024 codes": (TAMING, 72141699 - 1024 * 256),
    "taming f16, 16,384 codes": (TAMING, 76073859 - 16384 * 256),
    "LlamaGen VQ-16": ({**TAMING, "latent_dim": 8, "z_channels": 256}, 71883403 - 16384 * 8),
    "LlamaGen VQ-8": ({**TAMING, "latent_dim": 8, "z_channels": 256, **VQ8}, 70109835 - 16384 * 8),
    "VAR": ({**TAMING, "width": 160, "latent_dim": 32, "latent_kernel": 3}, 108948355 - 4096 * 32 - 4 * (32 * 32 * 9 + 32)),
    "MaskGIT": ({"family": "maskgit", "multipliers": [1, 1, 2, 2, 4], "latent_dim": 256}, 54515587 - 1024 * 256),
    "Open-MAGVIT2": ({"family": "magvit2", "multipliers": [1, 1, 2, 2, 4], "blocks": 4, "latent_dim": 18}, 115127829),
}


def count(*parts):
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


def check_numbers_of_parameters():
    for name, (config, published) in PUBLISHED.items():
        config = {**families.SMALL, "width": 128, "blocks": 2, **config}
        with torch.device("meta"):
            ours, theirs = autoencoder.Autoencoder(config), families.original(config)
        assert count(ours) == count(*theirs) == published, (name, count(ours), count(*theirs))
        assert dict(shapes(ours.encoder)) == dict(shapes(theirs[0])), name
        assert dict(shapes(ours.decoder)) == dict(shapes(theirs[1])), name


def shapes(module):
    return [(name, parameter.shape) for name, parameter in module.named_parameters()]


def check_outputs():
    stored = json.loads((GOLDEN / "families.json").read_text())
    assert stored.keys() == families.CASES.keys()
    for name, (config, _) in families.CASES.items():
        config = {**families.SMALL, **config}
        ours = autoencoder.Autoencoder(config).double()
        images = autoencoder.draw_tensor("images", stored[name]["images"])
        latents = autoencoder.draw_tensor("latents", stored[name]["encoder"]["shape"])
        for part, inputs, theirs in zip(("encoder", "decoder"), (images, latents), families.original(config)):
            mine = getattr(ours, part)
            autoencoder.fill(mine, part + ".")
            autoencoder.fill(theirs, part + ".")
            with torch.no_grad():
                found, expected = mine(inputs), theirs.double()(inputs)
            error = (found - expected).norm() / expected.norm()
            print(f"{name} {part}: {tuple(expected.shape)}, relative error {error:.1e}")
            assert error < 1e-12
            expected = autoencoder.summary(expected, 48)["norm"]
            assert abs(stored[name][part]["output"]["norm"] - expected) < 1e-9 * expected, "run golden/families.py"


check_numbers_of_parameters()
check_outputs()
