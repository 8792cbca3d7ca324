"""What several tests share: the program, and a folder as the documents' examples expect it."""

import os
import subprocess

import pytest

@pytest.fixture(scope="session")
def program():
    """The path of the program nsvq."""
    path = os.environ.get("NSVQ_PROGRAM")
    if not path:
        pytest.skip("NSVQ_PROGRAM is not set")
    return path


RECIPE = """
data: {train: "builtin:dead-leaves?size=32&count=32", val: "builtin:dead-leaves?size=32&count=24&seed=1", size: 32}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 64}
schedule: {freeze: epoch, freeze_epoch: 1, warmup_epochs: 1}
train: {epochs: 2, batch_size: 8, precision: fp32}
"""


@pytest.fixture(scope="session")
def document_folder(program, tmp_path_factory):
    """A working directory with what the documents name: runs/photos, a small tokenizer of drawn images, and a photo."""
    from PIL import Image
    folder = tmp_path_factory.mktemp("documents")

    def nsvq(*words):
        done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"nsvq {words}: {done.stderr}"

    (folder / "photos.yaml").write_text(RECIPE)
    nsvq("train", "photos.yaml")
    Image.linear_gradient("L").convert("RGB").save(folder / "some.jpg")
    return folder
