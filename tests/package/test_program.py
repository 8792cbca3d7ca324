"""nsvq.train and nsvq.read_run: the program as a child, its log, Ctrl-C and its errors."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import models
import numpy as np
import pytest

import nsvq
from nsvq import _settings, program

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(models.RECIPE)
    return path


@pytest.fixture(scope="module")
def trained(recipe):
    run = recipe.parent / "run"
    training = nsvq.train(recipe, {"train": {"epochs": 3, "log_every": 1}, "model.multipliers": [1, 2]}, run=run)
    return run, list(training), training


def test_lines_of_the_log(trained):
    run, lines, training = trained
    assert lines == [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 13))
    assert training.finished and training.message.startswith("verdict: ")


def test_read_run(trained):
    run, lines, training = trained
    read = nsvq.read_run(run)
    assert read.lines == lines
    steps = read.metrics["step"]
    assert steps["loss"].dtype == np.float64 and steps["loss"].tolist() == [line["loss"] for line in lines
                                                                             if line["kind"] == "step"]
    assert read.config["model"]["multipliers"] == [1, 2] and read.config["quantizer"]["type"] == "nsvq"
    assert read.config["train"]["precision"] == "fp32" and read.config["model"]["mid_attention"] is False
    assert training.message == f"verdict: {read.verdict}"
    with pytest.raises(ValueError, match="kind: 'nothing' has no lines in"):
        pytest.importorskip("pandas")
        read.frame("nothing")
    frame = read.frame("eval")
    assert frame["psnr"].tolist() == read.metrics["eval"]["psnr"].tolist()


def test_read_run_of_no_run(tmp_path):
    with pytest.raises(ValueError, match="holds no metrics.jsonl; is it the folder of a run"):
        nsvq.read_run(tmp_path)


def test_torn_lines(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "loss": 2}\n{"kind": "step", "step": 2}\n{"kind"')
    read = nsvq.read_run(tmp_path)
    assert read.metrics["step"]["step"].tolist() == [1, 2] and np.isnan(read.metrics["step"]["loss"][1])


def test_settings_as_the_program_writes_them():
    text = 'seed: 0\n\ndata:\n  train: [a.tar, "b, c?.tar"]\n  file: ""\n\nquantizer.ema:\n  decay: 1e-05\n  levels: [8, 5]\n' \
           '  rotation: true\n  empty: []\n  name: "a\\\\b\\x0a\\""\n'
    assert _settings.parse_settings(text, "here") == {
        "seed": 0, "data": {"train": ["a.tar", "b, c?.tar"], "file": ""},
        "quantizer": {"ema": {"decay": 1e-05, "levels": [8, 5], "rotation": True, "empty": [], "name": 'a\\b\n"'}}}
    with pytest.raises(ValueError, match="here:1: no setting as nsvq writes them"):
        _settings.parse_settings("- a", "here")
    words = program.setting_words({"a": {"b": True, "c": [1, "x y"]}, "d.e": 1e-3})
    assert words == ["a.b=true", 'a.c=[1, "x y"]', "d.e=0.001"]


def test_errors_are_one_line(recipe, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="train.epoch") as error:
        nsvq.train(recipe, {"train.epoch": 3}, run=tmp_path / "run").wait()
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="nothing.yaml"):
        list(nsvq.train(tmp_path / "nothing.yaml", run=tmp_path / "run"))
    monkeypatch.setenv("NSVQ_PROGRAM", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="NSVQ_PROGRAM=.* is no program"):
        nsvq.train(recipe, run=tmp_path / "run")
    monkeypatch.delenv("NSVQ_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    with pytest.raises(ValueError, match="the program nsvq is not found; build it by `make build`"):
        program.find_program()


def test_finding_the_program(tmp_path, monkeypatch):
    monkeypatch.delenv("NSVQ_PROGRAM")
    built = tmp_path / "build" / "release" / "nsvq"
    for path in (tmp_path / "nsvq" / "README.md", built):
        path.parent.mkdir(parents=True)
        path.write_text("")
    built.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "__file__", str(tmp_path / "python" / "nsvq" / "program.py"))
    assert program.find_program() == str(built)
    monkeypatch.setenv("PATH", str(built.parent))
    assert program.find_program() == str(built)


def test_leaving_the_loop_stops_and_the_same_call_goes_on(recipe, tmp_path):
    settings = {"train.epochs": 400, "train.log_every": 1}
    for line in nsvq.train(recipe, settings, run=tmp_path / "run"):
        if line["kind"] == "step" and line["step"] > 4:
            break
    saved = [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")]
    assert saved, "the program saves when it is stopped"
    training = nsvq.train(recipe, settings, run=tmp_path / "run")
    first = next(line for line in training if line["kind"] == "step")
    assert first["step"] > 4, "only new lines"


SCRIPT = """
import sys, nsvq
training = nsvq.train(sys.argv[1], {"train.epochs": 4000, "train.log_every": 1}, run=sys.argv[2])
for line in training:
    if line["kind"] == "step" and line["step"] == 3:
        print("training", flush=True)
print(training.finished, training.message)
"""


def test_ctrl_c(recipe, tmp_path):
    """As a terminal sends it: to every process of the group."""
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, recipe, tmp_path / "run"], stdout=subprocess.PIPE, text=True,
                             start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert child.stdout.readline() == "training\n"
    os.killpg(child.pid, signal.SIGINT)
    printed = child.stdout.read()
    assert child.wait() == 0, printed
    assert printed.startswith("False stopped; to resume: ") and "--resume" in printed, printed
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))


def test_a_script_that_fails_leaves_no_training_behind(recipe, tmp_path):
    script = SCRIPT.replace('print("training", flush=True)', "print(training._process.pid, flush=True); raise SystemExit(5)")
    child = subprocess.run([sys.executable, "-c", script, recipe, tmp_path / "run"], stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert child.returncode == 5
    pid, end = int(child.stdout), time.time() + 10
    while pathlib.Path(f"/proc/{pid}").exists() and time.time() < end:
        time.sleep(0.1)
    assert not pathlib.Path(f"/proc/{pid}").exists()
