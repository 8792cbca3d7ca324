#!/usr/bin/env python3
"""headers.py BUILD: each header of nsvq/ compiles by itself, with the flags of a build folder.

Headers that need torch use the build's precompiled header, the others none, so a standard header that is missing there shows.
CUDA headers are left out: they need nvcc.
"""

import concurrent.futures
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Line 2 fails after a header that ends inside a class or without a semicolon. Parsing stops at line 3, before templates that
# torch's headers use are instantiated (3 s for each header), unless the header leaves a namespace open.
CLIENT = '#include "{}"\nnamespace {{}}\n}}\n'


def compile_command(build):
    """Compiler and flags of the library nsvq_cli, and what its precompiled header needs besides."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", file.read(), re.MULTILINE)[1]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        command = next(entry["command"] for entry in json.load(file) if "/nsvq_cli.dir/" in entry["command"])
    words = shlex.split(command)
    kept, precompiled = [], []
    rest = iter(words[words.index(compiler):])  # without ccache
    for word in rest:
        if word in ("-include", "-Xclang"):
            precompiled += [word, next(rest)]
        elif word in ("-o", "-c"):
            next(rest)
        else:
            kept.append(word)
    return kept + ["-fsyntax-only", "-Wfatal-errors"], precompiled


@functools.cache
def included(header):
    """Headers outside nsvq/ that a header includes, also through others."""
    try:
        with open(os.path.join(SOURCE, header), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:  # made by CMake
        return frozenset()
    names = set(re.findall(r"^#include <([^>]+)>", text, re.MULTILINE))
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        names |= included(name)
    return frozenset(names)


def includes(header, prefix):
    return any(re.match(prefix, name) for name in included(header))


def complaint(header, command, precompiled):
    """What the compiler says about a header; empty if it compiles."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(CLIENT.format(header))
        source.flush()
        words = command + (precompiled if includes(header, "(torch|ATen|c10)/") else []) + [source.name]
        text = subprocess.run(words, capture_output=True, text=True).stderr
        errors = [line for line in text.splitlines() if "error: " in line]
        if errors and re.match(re.escape(source.name) + ":3:1: (fatal )?error: ", errors[0]):
            return ""
    return f"{header} does not compile by itself:\n{text or 'it leaves a namespace open'}"


def main():
    command, precompiled = compile_command(sys.argv[1])
    headers = sorted(os.path.relpath(os.path.join(folder, name), SOURCE)
                     for folder, _, names in os.walk(os.path.join(SOURCE, "nsvq")) for name in names if name.endswith(".h"))
    headers = [header for header in headers if not includes(header, "((ATen|c10)/)?cuda")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda header: complaint(header, command, precompiled), headers) if text]
    print("\n".join(complaints + [f"{len(headers)} headers, {len(complaints)} of which do not compile by themselves"]))
    return 1 if complaints or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
