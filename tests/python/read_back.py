"""Reads with the official packages what nsvq writes, and the reverse.

Run by ctest: run.sh read_back.py EXCHANGE, the executable of exchange.cpp.
"""

import io
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors
import safetensors.numpy
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

try:
    import torch
    import safetensors.torch
except ImportError:  # built with a torch of another Python version: numpy alone, without bfloat16
    torch = None

EXCHANGE = None

# torch's C++ name of each dtype and numpy's.
DTYPES = {
    "Double": np.float64,
    "Float": np.float32,
    "Half": np.float16,
    "Long": np.int64,
    "Int": np.int32,
    "Short": np.int16,
    "UInt16": np.uint16,
    "Char": np.int8,
    "Byte": np.uint8,
    "Bool": np.bool_,
}


class ReadBack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.tensors = os.path.join(cls.folder, "tensors.safetensors")
        subprocess.run([EXCHANGE, "write", cls.folder], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def check_values(self, name, array):
        if name == "transposed":
            expected = np.arange(6, dtype=np.float32).reshape(2, 3).T
        elif name == "scalar":
            expected = np.array(2.5, np.float32)
        elif name == "empty":
            expected = np.empty((3, 0, 2), np.float32)
        else:
            expected = (np.arange(33) % 7).astype(DTYPES[name])
        self.assertEqual(array.dtype, expected.dtype, name)
        self.assertEqual(array.shape, expected.shape, name)
        np.testing.assert_array_equal(array, expected, name)

    def test_safetensors_numpy(self):
        with safetensors.safe_open(self.tensors, "numpy") as file:
            self.assertEqual(file.metadata(), {"step": "12", "config": 'a: "\u00fc"\n'})
            names = set(file.keys())
            self.assertEqual(
                names, set(DTYPES) | {"BFloat16", "transposed", "scalar", "empty"}
            )
            for name in names - {"BFloat16"}:
                self.check_values(name, file.get_tensor(name))

    @unittest.skipIf(torch is None, "no torch for this Python")
    def test_safetensors_torch(self):
        tensors = safetensors.torch.load_file(self.tensors)
        half = tensors.pop("BFloat16")
        self.assertEqual(half.dtype, torch.bfloat16)
        self.assertEqual(half.tolist(), [i % 7 for i in range(33)])
        for name, tensor in tensors.items():
            self.check_values(name, tensor.numpy())

    def test_python_to_cpp(self):
        arrays = {name: np.arange(5).astype(dtype) for name, dtype in DTYPES.items()}
        arrays["empty"] = np.zeros((2, 0), np.float32)
        arrays["scalar"] = np.array(3, np.int64)
        arrays["matrix"] = np.arange(6, dtype=np.float32).reshape(2, 3)
        arrays["limits"] = np.array([0, 65535], np.uint16)
        path = os.path.join(self.folder, "python.safetensors")
        safetensors.numpy.save_file(arrays, path, metadata={"made": "by"})
        run = subprocess.run(
            [EXCHANGE, "print", path], check=True, capture_output=True, text=True
        )
        names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
        expected = ["metadata made by"]
        for key in sorted(arrays):
            shape = "".join(f"{size}," for size in arrays[key].shape)
            values = "".join(f" {float(value):g}" for value in arrays[key].flat)
            expected.append(f"{key} {names[arrays[key].dtype]} [{shape}]{values}")
        self.assertEqual(run.stdout.splitlines(), expected)

    @unittest.skipIf(torch is None, "no torch for this Python")
    def test_bfloat16_to_cpp(self):
        path = os.path.join(self.folder, "bfloat16.safetensors")
        safetensors.torch.save_file({"a": torch.tensor([1.5, -2], dtype=torch.bfloat16)}, path)
        run = subprocess.run(
            [EXCHANGE, "print", path], check=True, capture_output=True, text=True
        )
        self.assertEqual(run.stdout, "a BFloat16 [2,] 1.5 -2\n")

    def test_tensorboard(self):
        events = EventAccumulator(os.path.join(self.folder, "events"))
        events.Reload()
        self.assertEqual(events.file_version, 2.0)
        self.assertEqual(sorted(events.Tags()["scalars"]), ["far", "train/loss"])
        losses = events.Scalars("train/loss")
        self.assertEqual([event.step for event in losses], list(range(50)))
        for event in losses:
            self.assertEqual(event.value, np.float32(1 / (event.step + 1)))
            self.assertGreater(event.wall_time, 1.6e9)
        far = events.Scalars("far")[0]
        self.assertEqual((far.step, far.value), (2**40, np.float32(-1e30)))

    def test_tensorboard_image(self):
        events = EventAccumulator(os.path.join(self.folder, "events"))
        events.Reload()
        self.assertEqual(events.Tags()["images"], ["samples"])
        event = events.Images("samples")[0]
        self.assertEqual((event.step, event.width, event.height), (7, 5, 3))
        pixels = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
        expected = (np.arange(45) * 5).astype(np.uint8).reshape(3, 5, 3)
        np.testing.assert_array_equal(pixels, expected)

    def test_tensorboard_text(self):
        events = EventAccumulator(os.path.join(self.folder, "events"))
        events.Reload()
        self.assertEqual(list(events.PluginTagToContent("text")), ["config"])
        event = events.Tensors("config")[0]
        self.assertEqual(event.step, 0)
        self.assertEqual(event.tensor_proto.string_val[0].decode(), "# nsvq\n`a: \u00fc`")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: read_back.py EXCHANGE [unittest options]")
    EXCHANGE = sys.argv.pop(1)
    unittest.main(verbosity=2)
