"""Whatever the documents name exists: docs.py NSVQ

Reads docs/**/*.md, README.md, CONTRIBUTING.md and nsvq/README.md, and prints a line for each
- path, in a link, in backticks or in a command, that is not in the tree,
- setting that `nsvq config --reference` and those of `nsvq diffusion` and `nsvq generate` do not have,
- command or option that the program does not have, target of make or cmake, filter of tests,
- line over 100 columns, table over ten rows, picture that is not drawn from its CSV.
Exit code 1 if there are any. Needs Python alone.
"""

import fnmatch
import functools
import importlib.util
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 100, 10

# Files of the tree are recognised by these ends; others, as run.tar or metrics.jsonl, are a user's or a run's.
SOURCE_ENDS = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".js", ".css", ".cmake", ".md", ".supp", ".svg"}
DATA_ENDS = {".yaml", ".json", ".jsonl", ".csv", ".png", ".tar", ".npz", ".npy", ".safetensors", ".html", ".txt",
             ".so", ".jpg", ".pth", ".pt", ".cls", ".gz", ".zst", ".ckpt", ".webp", ".toml"}
# Tensors, keys of JSON and a misspelling whose names look like settings, and files of exports and of other programs.
NOT_SETTINGS = {"quantizer.codebook", "train.epoch", "data.joined", "data.keys_sha256", "data.scales", "data.to_datasets",
                "model.load_state_dict"}
NOT_OURS = {"load_model.py", "openaimodel.py", "evaluation.py", "reconstruction_vq_ddp.py", "improved_model.py", "torch/types.h",
            "torch/torch.h"}
FOREIGN_OPTIONS = {"--no-python", "--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint",
                   "--max-restarts", "--gtest_filter", "--ntasks-per-node", "--nodes", "--preset", "--label",
                   "--label-exclude", "--logdir", "--help", "--version",
                   "--no-build-isolation", "--no-cache-dir"}
COMMAND = r"(?:(?:make|cmake|ninja|python3?|ctest)|(?:NSVQ_\w+=\S+ )*(?:build|scripts|tests|bench)/\S+) "
COMMAND_LINE = r"(?:^|[\s/])(?:nsvq|nsvq_bench|make|cmake|python3?|torchrun|srun|ninja)\s|^(?:scripts|bench|tests|build)/"
BENCH_COMMANDS = {"ops", "step", "diffusion", "generation", "tokenize"}


@functools.cache
def tree():
    """Paths of the tree, without build folders."""
    paths = set()
    for folder, folders, files in os.walk(ROOT):
        below = Path(folder).relative_to(ROOT)
        folders[:] = [f for f in folders if f not in (".git", "__pycache__") and
                      (below / f).as_posix() not in ("build", "runs", "reproduce", "shared")]
        paths.update((below / name).as_posix() for name in folders + files)
    return paths


@functools.cache
def sources(ends, folders=("",)):
    """The text of all files with one of these ends, below folders."""
    return "\n".join((ROOT / path).read_text(errors="replace") for path in sorted(tree())
                     if path.startswith(folders) and path.endswith(ends) and (ROOT / path).is_file())


class Program:
    """What `nsvq` says of itself: settings by its references, commands and options by its completion."""

    def __init__(self, path):
        self.path = path
        self.settings = self.reference("config") | self.reference("diffusion", "config") | self.reference("generate", "config")
        self.sections = {key.split(".")[0] for key in self.settings if "." in key}
        self.words = {}
        line = r'^ *"?([\w -]*\*?)"?\*?\) candidates="([^"]*)"'
        for command, words in re.findall(line, self.run("completion", "bash"), re.M):
            self.words[tuple(command.rstrip("*").split())] = set(words.split())
        self.all_options = FOREIGN_OPTIONS.union(*self.words.values(), *map(self.bench_options, BENCH_COMMANDS))
        self.all_options |= set(re.findall(r'add_argument\("(--[a-z][\w-]*)', sources((".py",))))

    def run(self, *words, program=None):
        done = subprocess.run([program or self.path, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"docs.py: {self.path} {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def reference(self, *command):
        """Keys of `--reference`: a line each, then type, default, range and meaning."""
        return set(re.findall(r"^([a-z][\w.]*)  ", self.run(*command, "--reference"), re.M)) - {"key"}

    def commands(self, *command):
        """Names of the commands below one."""
        return {word for word in self.words.get(command, ()) if not word.startswith("--")}

    def options(self, *command):
        return {word for word in self.words.get(command, ()) if word.startswith("--")}

    @functools.cache
    def bench_options(self, command):
        """Options of `nsvq_bench`, which is not always built; then those that its sources name."""
        program = Path(self.path).with_name("nsvq_bench")
        text = self.run(command, "--help", program=program) if program.exists() else sources((".cpp",), ("bench/", "nsvq/cli/"))
        return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def braces(path):
    """a{b,c}d as abd and acd; ranges, as {00..03}, become a star."""
    path = re.sub(r"\{\w+\.\.\w+\}", "*", path)
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return list(itertools.chain(*(braces(path[:found.start()] + one + path[found.end():])
                                  for one in found[1].split(","))))


@functools.cache
def endings():
    """Each path of the tree and what is left of it without its first folders."""
    return {path.split("/", i)[-1] for path in tree() for i in range(path.count("/") + 1)}


def in_tree(path, folder):
    """Whether a path exists: from the root or the document's folder, or as the end of a path of the tree."""
    path = path.rstrip("/")
    if path in endings() or (folder / path).exists():
        return True
    return "*" in path and bool(fnmatch.filter(endings(), path))


@functools.cache
def top_names():
    return {path for path in tree() if "/" not in path}


def is_path(word):
    """Whether a word names a file of the tree, not a user's: it begins with one of its folders, or ends as sources do."""
    if not re.fullmatch(r"\.?[\w{},.*+-]+(?:/[\w{},.*+-]*)*", word) or word in NOT_OURS or word.startswith("build/"):
        return False
    if re.search(r"\b[A-Z]+(?:_[A-Z]+)*\b", Path(word).stem):  # ROW.yaml
        return False
    return "/" in word and word.split("/")[0] in top_names() or Path(word).suffix in SOURCE_ENDS


def slug(title):
    """The anchor that GitHub gives a title."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def anchors(path):
    return {slug(line.lstrip("#")) for line in path.read_text().splitlines() if line.startswith("#")}


class Document:
    def __init__(self, path, program):
        self.path, self.program = path, program
        self.name = path.relative_to(ROOT).as_posix()
        self.lines = path.read_text().splitlines()
        self.findings = []

    def report(self, number, words):
        self.findings.append((number, f"{self.name}:{number}: {words}"))

    def check(self):
        prose, blocks = self.split()
        self.check_shape(blocks)
        text = "\n".join(prose)
        number = lambda at: text.count("\n", 0, at) + 1
        for found in re.finditer(r"\]\(([^)\s]+)\)", text):
            self.check_link(number(found.start()), found[1])
        for found in re.finditer(r"`([^`]+)`", text):
            self.check_span(number(found.start()), " ".join(found[1].split()))
        for start, language, block in blocks:
            self.check_block(start, language, block)
        return [words for _, words in sorted(self.findings)]

    def split(self):
        """The lines outside of code, with code left empty, and the blocks of code: (line, language, lines)."""
        prose, blocks, block = [], [], None
        for number, line in enumerate(self.lines, 1):
            fence = re.match(r"^\s*```(\w*)", line)
            if fence and block is None:
                block = (number + 1, fence[1], [])
                blocks.append(block)
            elif fence:
                block = None
            elif block:
                block[2].append(line)
            formula = line.startswith("    ") and not line.lstrip().startswith("-")
            prose.append("" if fence or block or formula else line)
        return prose, blocks

    def check_shape(self, blocks):
        code = {start + i for start, _, block in blocks for i in range(len(block))}
        rows = 0
        for number, line in enumerate(self.lines + [""], 1):
            if len(line) > COLUMNS and " " in line.strip():
                self.report(number, f"{len(line)} columns")
            if number not in code and line.lstrip().startswith("|"):
                rows += 1
                continue
            if rows - 2 > ROWS:
                self.report(number - rows, f"a table of {rows - 2} rows; put it into a CSV beside a picture")
            rows = 0

    def check_link(self, number, target):
        if re.match(r"[a-z]+:", target):
            return
        name, _, anchor = target.partition("#")
        path = (self.path.parent / name).resolve() if name else self.path
        if not path.exists():
            self.report(number, f"no such file {target}")
        elif anchor and anchor not in anchors(path):
            self.report(number, f"no such title {target}")

    def check_span(self, number, span):
        if re.match(r"(?:[\w.~$-]*/)*nsvq(?:_bench)? ", span + " ") or re.match(COMMAND, span):
            self.check_command(number, span)
            return
        words = span.split()
        for word in words:
            if word.startswith("--"):
                self.check_option(number, word)
        if len(words) == 1:
            self.check_word(number, span)
        for key in re.findall(r"(?<![\w./\"-])([a-z]\w*(?:\.\w+)+(?:\.\*)?)", span):
            self.check_setting(number, key)

    def check_word(self, number, word):
        for path in braces(word.strip("'\"")):
            if is_path(path) and not in_tree(path, self.path.parent):
                self.report(number, f"no such file {path}")
        built = re.fullmatch(r"build/\w+/(?:tests/)?(?:lib)?(\w+?)(?:\.so)?", word)
        if built and not re.search(rf"\b{re.sub('^test_', '', built[1])}\b", sources(("CMakeLists.txt", ".cmake"))):
            self.report(number, f"no such target {built[1]}")

    def check_setting(self, number, key):
        key = re.sub(r"\.\*$", "", key)
        section = key.split(".")[0]
        if section not in self.program.sections or key in NOT_SETTINGS:
            return
        if Path(key).suffix in SOURCE_ENDS | DATA_ENDS:
            return
        if not any(known == key or known.startswith(key + ".") for known in self.program.settings):
            self.report(number, f"no such setting {key}")

    def check_option(self, number, word):
        name = re.split(r"[=\s,|\]]", word)[0].rstrip(".")
        if name != "--" and name not in self.program.all_options:
            self.report(number, f"no such option {name}")

    def check_block(self, start, language, block):
        if language in ("python", "json", "cpp", "cmake", "yaml"):
            return
        at = 0
        while at < len(block):
            first, line = at, block[at]
            while line.rstrip().endswith("\\") and at + 1 < len(block):
                at += 1
                line = line.rstrip()[:-1] + " " + block[at].strip()
            at += 1
            if re.search(COMMAND_LINE, line):
                self.check_command(start + first, line)

    def check_command(self, number, line):
        try:
            words = shlex.split(re.sub(r"[\[\]()]", " ", line), comments=True)
        except ValueError:
            words = line.split()
        for part in self.simple_commands(words):
            self.check_simple(number, part)

    @staticmethod
    def simple_commands(words):
        """The commands that &&, |, ; and - for torchrun - -- join."""
        part = []
        for word in words:
            if word in ("&&", "||", "|", ";", "--", "do", "done", "then"):
                yield part
                part = []
            else:
                part.append(word.rstrip(";"))
        yield part

    def check_simple(self, number, words):
        at = next((i for i, word in enumerate(words) if Path(word).name in ("nsvq", "nsvq_bench")), None)
        scripts = any(word.endswith((".py", ".sh")) for word in words[:at])
        if at is not None and not scripts:
            self.check_nsvq(number, Path(words[at]).name, words[at + 1:])
        for word in words:
            self.check_word(number, word)
            if re.match(r"[a-z]\w*\.[\w.]+=", word) and word.split(".")[0] in self.program.sections:
                self.check_setting(number, word.split("=")[0])
            if word.startswith("--gtest_filter="):
                self.check_filter(number, word.split("=", 1)[1])
        if words[:1] == ["make"]:
            for word in words[1:]:
                if "=" not in word and not re.search(rf"^{re.escape(word)}:", (ROOT / "Makefile").read_text(), re.M):
                    self.report(number, f"no such target of make: {word}")
        if "--preset" in words:
            presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
            name = words[words.index("--preset") + 1]
            if name.islower() and name not in {preset["name"] for preset in presets}:
                self.report(number, f"no such preset {name}")

    def check_nsvq(self, number, name, words):
        plain = [word for word in words if re.fullmatch(r"[a-z][\w-]*", word)]
        if name == "nsvq_bench":
            if words and words[0] not in BENCH_COMMANDS:
                self.report(number, f"no such command nsvq_bench {words[0]}")
            elif words:
                self.check_options(number, f"nsvq_bench {words[0]}", words, self.program.bench_options(words[0]))
            return
        if words[:1] == ["help"]:
            words = [word for word in words[1:] if word != "--all"]
        if not words or not re.fullmatch(r"[a-z][\w-]*", words[0]):
            return
        command = (words[0],)
        if words[0] not in self.program.commands():
            self.report(number, f"no such command nsvq {words[0]}")
            return
        below = self.program.commands(*command)
        if below and len(words) > 1 and plain[1:2] == [words[1]]:
            if words[1] not in below:
                self.report(number, f"no such command nsvq {words[0]} {words[1]}")
                return
            command += (words[1],)
        if "--rows" in words:
            for row in words[words.index("--rows") + 1].split(","):
                if not re.search(rf"^  {re.escape(row)}:$", sources((".yaml",)), re.M):
                    self.report(number, f"no experiment has a row {row}")
        self.check_options(number, f"nsvq {' '.join(command)}", words, self.program.options(*command))

    def check_options(self, number, command, words, known):
        for word in words:
            option = re.split(r"[=,|]", word)[0]
            if option.startswith("--") and option not in known:
                self.report(number, f"{command} has no option {option}")

    def check_filter(self, number, patterns):
        for pattern in patterns.strip("'\"").split(":"):
            suite = pattern.lstrip("-*/").split(".")[0].rstrip("*/")
            if suite and not re.search(rf"\b(?:TEST\w*|INSTANTIATE\w*)\(\s*\w*{suite}", sources((".cpp",))):
                self.report(number, f"no test of the name {pattern}")


def stale_pictures():
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs/figures/draw.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    return [f"docs/{name}:1: differs from its CSV; run python docs/figures/draw.py" for name in draw.stale()]


def main(nsvq):
    program = Program(str(Path(nsvq).resolve()))
    assert len(program.settings) > 100 and len(program.commands()) > 15, "the program's help has a new form"
    others = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "nsvq/README.md"))
    paths = [*sorted((ROOT / "docs").glob("**/*.md")), *others]
    findings = [finding for path in paths for finding in Document(path, program).check()] + stale_pictures()
    print("\n".join(findings) or f"docs: {len(paths)} documents, everything they name exists")
    return 1 if findings else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
