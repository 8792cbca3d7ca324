"""The examples of vector-quantize-pytorch's README, with its import changed to ours, where that package is installed."""

import importlib.metadata
import re

import pytest
import torch

import nsvq

ABSENT = ("ResidualFSQ", "FSP", "ResidualLFQ", "LatentQuantize")  # docs/python.md says so


def examples():
    """{number and class: source}"""
    try:
        text = importlib.metadata.distribution("vector-quantize-pytorch").metadata.get_payload()
    except importlib.metadata.PackageNotFoundError:
        return {}
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [block for block in blocks if "import" in block]
    return {f"{number} {re.search(r'vector_quantize_pytorch import (.*)', block)[1]}": block for number, block in enumerate(blocks)}


EXAMPLES = examples()
pytestmark = pytest.mark.skipif(not EXAMPLES, reason="vector-quantize-pytorch is not installed")


def shapes(text):
    """Those in a comment behind a call: (1, 1024, 256), (1, 1024), (1)"""
    return [tuple(map(int, re.findall(r"\d+", one))) for one in re.findall(r"\(([\d, ]*)\)", text)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    source = EXAMPLES[name]
    torch.manual_seed(0)
    if name.split()[1] in ABSENT:
        assert not hasattr(nsvq, name.split()[1])
        return
    space = {}
    exec(source.replace("from vector_quantize_pytorch import", "from nsvq import"), space)
    if "quantized" not in space or "indices" not in space or not (said := re.findall(r"# (\(.*\))", source)):
        return
    expected = shapes(said[0])
    assert tuple(space["quantized"].shape) == expected[0]
    assert tuple(space["indices"].shape) == expected[1]


def test_there_are_examples():
    assert len(EXAMPLES) > 20 and sum(name.split()[1] not in ABSENT for name in EXAMPLES) >= 20
