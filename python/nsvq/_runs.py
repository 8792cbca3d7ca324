"""A run's folder: settings, metrics and verdict."""

from __future__ import annotations

import collections
import functools
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nsvq._settings import parse_settings

if TYPE_CHECKING:
    import pandas


class Run:
    """What a run has written down: `config` by section, `metrics` by kind, `lines` as they are."""

    def __init__(self, path: pathlib.Path, lines: list[dict[str, Any]]):
        self.path, self.lines = path, lines

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """All settings, nested by section, such as config["train"]["epochs"]."""
        file = self.path / "config.yaml"
        return parse_settings(file.read_text(), str(file))

    @functools.cached_property
    def metrics(self) -> dict[str, dict[str, np.ndarray]]:
        """Columns of each kind of line: metrics["eval"]["psnr"] [lines], beside "step" and "epoch". Numbers are float64, with
        NaN where a line lacks a key; texts and lists are arrays of objects, with None."""
        kinds = collections.defaultdict(list)
        for line in self.lines:
            kinds[line["kind"]].append(line)
        return {kind: {key: column([line.get(key) for line in lines]) for key in dict.fromkeys(
            key for line in lines for key in line if key != "kind")} for kind, lines in kinds.items()}

    def frame(self, kind: str) -> pandas.DataFrame:
        """The lines of a kind as a pandas.DataFrame, a column a key."""
        import pandas

        if kind not in self.metrics:
            raise ValueError(f"kind: {kind!r} has no lines in {self.path}; there are {', '.join(sorted(self.metrics))}")
        return pandas.DataFrame(self.metrics[kind])

    @property
    def verdict(self) -> str:
        """How the run went, in the program's words (docs/runs.md); empty while it has none."""
        from nsvq.program import run_program

        return json.loads(run_program("runs", self.path, "--json"))[0]["verdict_text"]


def column(values: list[Any]) -> np.ndarray:
    if all(value is None or isinstance(value, (int, float)) for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl. A killed run tears its last one, which is left out."""
    lines: list[dict[str, Any]] = []
    for text in path.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and "kind" in line:
            lines.append(line)
    return lines


def read_run(run: str | os.PathLike) -> Run:
    """Reads a run's folder:

        run = nsvq.read_run("runs/photos")
        run.metrics["eval"]["psnr"]          # numpy, beside run.metrics["eval"]["step"]
        run.frame("eval")                    # pandas
        run.config["quantizer"]["codes"], run.verdict
    """
    path = pathlib.Path(run)
    file = path / "metrics.jsonl"
    if not file.is_file():
        raise ValueError(f"{path}: holds no metrics.jsonl; is it the folder of a run?")
    return Run(path, read_lines(file))
