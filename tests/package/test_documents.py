"""The Python blocks of README.md and docs/python.md run as they stand, those of a document one after the other."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = ["docs/python.md", "README.md"]
ELSEWHERE = ("Tokenizer", "Tokens", "Training")  # sections of docs/python.md whose blocks test_document_tokens.py runs


def blocks(document):
    """(line, text) of each ```python block, but for the sections that have a test of their own."""
    text, found = (ROOT / document).read_text(), []
    for one in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M):
        section = re.findall(r"^## (.*)", text[:one.start()], re.M)[-1:]
        if document != "docs/python.md" or section[0] not in ELSEWHERE:
            found.append((text.count("\n", 0, one.start()) + 2, textwrap.dedent(one[1])))
    return found


def script(document):
    """The blocks as a program whose errors name the document's lines."""
    parts = [f"exec(compile({chr(10) * (line - 1) + text!r}, {document!r}, 'exec'))" for line, text in blocks(document)]
    return "\n".join(["import torch", "torch.manual_seed(0)", *parts])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_blocks_run(document, document_folder):
    """In a folder that has what the documents name: runs/photos and some.jpg (conftest.py)."""
    assert blocks(document), f"{document} has no Python block"
    path = os.pathsep.join(os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script(document)], cwd=document_folder, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
