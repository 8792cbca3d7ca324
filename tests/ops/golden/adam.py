"""Steps of torch.optim.Adam with a weight average behind it: writes adam.json beside itself, fp64.

Parameters, gradients and moments are a formula that the C++ test repeats, rounded to fp32 as it has them.
"""

import json
import math
import pathlib

import torch

OPTIONS = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "average_decay": 0.99}
STEPS = 4
# shape, steps taken before: none, so that moments are zero, or many, so that the correction of their bias is next to 1
CASES = [([1], 0), ([33], 0), ([2, 5, 3, 3], 0), ([33], 1), ([2, 5, 3, 3], 700)]


def formula(shape, phase):
    """Numbers in [-1, 1] from whole ones, so that every machine has the same."""
    i = torch.arange(math.prod(shape))
    whole = (((7 * i + 31) * i + 17) * i + 101 * phase) % 2003
    return (whole.double() / 1001 - 1).float().double().reshape(shape)


def run(shape, before):
    parameter = formula(shape, 1).requires_grad_()
    average = formula(shape, 2)
    optimizer = torch.optim.Adam([parameter], OPTIONS["lr"], (OPTIONS["beta1"], OPTIONS["beta2"]), OPTIONS["eps"],
                                 foreach=False, fused=False)
    if before > 0:
        optimizer.state[parameter] = {"step": torch.tensor(float(before)), "exp_avg": formula(shape, 3) * 0.125,
                                      "exp_avg_sq": formula(shape, 4).square() * 0.125}
    for step in range(STEPS):
        parameter.grad = formula(shape, 10 + step)
        optimizer.step()
        average = OPTIONS["average_decay"] * average + (1 - OPTIONS["average_decay"]) * parameter.detach()
    state = optimizer.state[parameter]
    tensors = {"parameter": parameter, "moment1": state["exp_avg"], "moment2": state["exp_avg_sq"], "average": average}
    return {"shape": shape, "before": before, "steps": STEPS,
            **{name: [float(f"{x:.12g}") for x in tensor.flatten().tolist()] for name, tensor in tensors.items()}}


def main():
    cases = [json.dumps(run(*case)) for case in CASES]
    text = f'{{"options": {json.dumps(OPTIONS)}, "cases": [\n' + ",\n".join(cases) + "\n]}\n"
    pathlib.Path(__file__).with_suffix(".json").write_text(text)


main()
