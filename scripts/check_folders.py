#!/usr/bin/env python3
"""Includes between the folders of nsvq/ against cmake/folders.txt, and the number of files in each folder."""
import pathlib
import re
import sys

MOST_FILES = 33

table = {}
for row in pathlib.Path("cmake/folders.txt").read_text().splitlines():
    if re.match("[a-z]", row):
        folder, below = row.split(":")
        table[folder] = set(below.split())


def folder_of(path):
    """The folder in the table that holds `path`, relative to nsvq/."""
    return next((str(p) for p in path.parents if str(p) in table), None)


findings = []
for file in sorted(pathlib.Path("nsvq").rglob("*")):
    if file.suffix not in (".h", ".cpp", ".cu", ".cuh"):
        continue
    here = folder_of(file.relative_to("nsvq"))
    for used in re.findall(r'#include "nsvq/([^"]+)"', file.read_text()):
        there = folder_of(pathlib.PurePath(used))
        if there != here and there not in table.get(here, ()):
            findings.append(f"{file} includes nsvq/{used}, but {here} may not include {there} (cmake/folders.txt)")
for folder in sorted(p for p in pathlib.Path("nsvq").rglob("*") if p.is_dir()):
    count = sum(p.is_file() for p in folder.iterdir())
    if count > MOST_FILES:
        findings.append(f"{folder} has {count} files; at most {MOST_FILES} keep it readable")
    if folder.parent == pathlib.Path("nsvq") and folder.name not in table:
        findings.append(f"{folder} is not in cmake/folders.txt")
for finding in findings:
    print(f"check: {finding}", file=sys.stderr)
sys.exit(1 if findings else 0)
