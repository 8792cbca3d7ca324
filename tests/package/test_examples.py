"""examples/python: a transformer on tokens; Ray and the notebook where their packages are installed."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import models
import pytest
import torch

import nsvq
from nsvq.program import find_program

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(pathlib.Path(nsvq.__file__).parents[1])}  # the package that is tried


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    models.write_photos(folder / "photos", models.draw_images(40))
    model = models.make_model(folder, models.CASES["nsvq"])
    models.program_tokens(model, folder / "photos", folder / "tokens")
    return folder


def test_transformer(made):
    subprocess.run([sys.executable, EXAMPLES / "transformer.py", made / "tokens", "--steps", "3", "--model",
                    made / "model.safetensors", "--out", made / "samples.png"], env=ENVIRONMENT, check=True)
    from PIL import Image
    assert Image.open(made / "samples.png").size == (8 * 32, 32)


def test_transformer_learns(made):
    spec = importlib.util.spec_from_file_location("transformer", EXAMPLES / "transformer.py")
    transformer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(transformer)
    torch.manual_seed(0)
    _, losses = transformer.train(nsvq.TokenDataset(made / "tokens"), 40, batch_size=20, rate=1e-2, width=32, depth=1)
    assert 4 < losses[0] < 5 and losses[-1] < losses[0] - 0.4, losses[::10]  # log 64 is 4.16


@pytest.mark.slow
def test_ray(made, monkeypatch):
    """Several workers make the tokens of one process."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 by default: beside other work nothing would be left for them
    sys.path.insert(0, str(EXAMPLES))
    import ray_tokenize
    ray.init(num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": f"{EXAMPLES}:{ENVIRONMENT['PYTHONPATH']}"}})
    try:
        rows = ray_tokenize.tokenize(made / "model.safetensors", str(made / "photos"), workers=2).take_all()
    finally:
        ray.shutdown()
    tokenizer = nsvq.Tokenizer.from_pretrained(made / "model.safetensors")
    assert len(rows) == 40
    for row in rows:
        alone = tokenizer.encode(tokenizer.read(row["path"]))[0].numpy()
        assert (row["tokens"] == alone).mean() > 0.98, "batches of different sizes may round differently"


@pytest.mark.slow
def test_notebook(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    pytest.importorskip("ipykernel")
    os.environ.update(ENVIRONMENT, NSVQ_SOURCE=str(EXAMPLES.parents[1]), NSVQ_EPOCHS="1", NSVQ_PROGRAM=find_program())
    notebook = nbformat.read(EXAMPLES / "codes.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5


def test_the_notebook_has_no_outputs():
    for cell in json.loads((EXAMPLES / "codes.ipynb").read_text())["cells"]:
        assert not cell.get("outputs") and len("".join(cell["source"]).splitlines()) < 25
