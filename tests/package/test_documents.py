"""The Python blocks of docs/python.md and README.md run as they stand, those of a document one after the other in one namespace."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = ["docs/python.md", "README.md"]


def blocks(document):
    """(line, text) of each ```python block."""
    text = (ROOT / document).read_text()
    return [(text.count("\n", 0, one.start()) + 2, textwrap.dedent(one[1]))
            for one in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)]


def script(document):
    """The blocks as a program whose errors name the document's lines."""
    parts = [f"exec(compile({chr(10) * (line - 1) + text!r}, {document!r}, 'exec'))" for line, text in blocks(document)]
    return "\n".join(["import torch", "torch.manual_seed(0)", *parts])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_blocks_run(document, document_folder):
    """In a folder that has what the documents name: runs/photos, tokens/ (conftest.py)."""
    assert blocks(document), f"{document} has no Python block"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script(document)], cwd=document_folder, env=os.environ,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
