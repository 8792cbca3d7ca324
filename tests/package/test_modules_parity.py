"""Modules against vector-quantize-pytorch 1.32.0: its checkpoints load, and two steps give its results (golden/make_modules.py)."""

import pathlib

import module_cases
import pytest
import torch
from safetensors.torch import load_file

import nsvq

GOLDEN = pathlib.Path(__file__).parent / "golden" / "modules.safetensors"


@pytest.fixture(scope="module")
def golden():
    return load_file(GOLDEN)


@pytest.mark.parametrize("name", module_cases.names())
def test_steps_of_vector_quantize_pytorch(golden, name):
    case = {key.split("/", 1)[1]: value for key, value in golden.items() if key.split("/", 1)[0] == name}
    kind, options, _, ours = module_cases.CASES[name.removesuffix("_masked")]
    module = getattr(nsvq, kind)(**options, **ours)
    before = {key.removeprefix("before."): value for key, value in case.items() if key.startswith("before.")}
    module.load_state_dict(before)
    results = module_cases.run(module, case["x"], case.get("mask"), case["weights"])
    for key, value in results.items():
        theirs = case[key]
        if key.startswith("indices"):
            assert torch.equal(value, theirs.long()), key
        else:
            torch.testing.assert_close(value, theirs.to(value.dtype), rtol=2e-4, atol=2e-5, msg=lambda text: f"{key}: {text}")
    compared = {key for key in case if key not in ("x", "weights", "mask") and not key.startswith("before.")}
    assert compared - set(results) <= {"after.mask"}  # the weights of LFQ's bits


def test_the_other_way(golden):
    """A state of ours has the names and shapes of theirs."""
    module = nsvq.VectorQuantize(**module_cases.CASES["projected"][1])
    theirs = {key.removeprefix("projected/before."): value for key, value in golden.items() if key.startswith("projected/before.")}
    assert {key: value.shape for key, value in module.state_dict().items()} == {key: value.shape for key, value in theirs.items()}
