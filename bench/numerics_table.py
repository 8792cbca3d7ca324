"""The table of bench/numerics.sh from the folder of its runs: numerics_table.py RUNS"""

import json
import pathlib
import statistics
import sys

runs = pathlib.Path(sys.argv[1])
curves = {"PyTorch, bf16": json.loads((runs / "torch.json").read_text())["losses"]}
for name, title in (("fp32", "nsvq, fp32"), ("bf16", "nsvq, bf16"), ("graphs", "nsvq, bf16, CUDA graphs")):
    lines = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    curves[title] = [line["loss"] for line in lines if line["kind"] == "step"]
least = min(map(len, curves.values()))
shown = [step for step in (1, 2, 5, 10, 20, 50, 100, 150, 200) if step <= least]
print("| loss at step |", " | ".join(map(str, shown)), "| mean of the last 20 |")
print("|---" * (len(shown) + 2) + "|")
for title, losses in curves.items():
    values = [losses[step - 1] for step in shown] + [statistics.mean(losses[-20:])]
    print(f"| {title} |", " | ".join(f"{value:.4f}" for value in values), "|")
