"""numpy reads the .npz files that nsvq writes, and nsvq those of numpy.

Run by ctest: run.sh npz.py EXCHANGE, the executable of exchange.cpp.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

EXCHANGE = None


class Npz(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.path = self.folder / "statistics.npz"

    def test_numpy_reads_ours(self):
        subprocess.run([EXCHANGE, "write", self.folder], check=True)
        path = self.folder / "arrays.npz"
        sigma = np.arange(25).reshape(5, 5) / 7
        expected = {
            "mu": np.arange(5) / 3,
            "sigma": sigma,
            "transposed": sigma.T,
            "single": np.full((1, 3), 1.5, np.float32),
            "scalar": np.array(-2.0),
            "empty": np.empty((3, 0), np.float32),
        }
        with np.load(path, allow_pickle=False) as arrays:
            self.assertEqual(sorted(arrays.files), sorted(expected))
            for name, array in expected.items():
                self.assertEqual(arrays[name].dtype, array.dtype, name)
                self.assertEqual(arrays[name].shape, array.shape, name)
                np.testing.assert_array_equal(arrays[name], array, name)
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())

    def run_print(self):
        return subprocess.run([EXCHANGE, "print", self.path], capture_output=True, text=True)

    def expect(self, **arrays):
        run = self.run_print()
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        kinds = {np.dtype(np.float64): "Double", np.dtype(np.float32): "Float"}
        lines = []
        for name in ("mu", "sigma"):
            shape = "".join(f"{size}," for size in arrays[name].shape)
            values = "".join(f" {float(value)!r}".removesuffix(".0") for value in arrays[name].flat)
            lines.append(f"{name} {kinds[arrays[name].dtype]} [{shape}]{values}")
        self.assertEqual(run.stdout.splitlines(), lines)

    def test_ours_reads_numpys(self):
        rng = np.random.default_rng(1)
        samples = rng.normal(size=(9, 7))
        mu, sigma = np.mean(samples, axis=0), np.cov(samples, rowvar=False)
        others = {"arr_0": np.arange(1000), "text": np.array(["a"])}  # passed over
        cases = [(np.savez, np.float64, "C", {}), (np.savez_compressed, np.float64, "F", others)]
        cases += [(np.savez, np.float32, "F", others), (np.savez_compressed, np.float32, "C", {})]
        for save, kind, order, beside in cases:
            arrays = {"mu": mu.astype(kind), "sigma": np.asarray(sigma.astype(kind), order=order)}
            save(self.path, **beside, **arrays)
            self.expect(**arrays)
        skewed = rng.normal(size=(3, 4, 5))
        np.savez_compressed(self.path, mu=np.zeros(0), sigma=np.asfortranarray(skewed))
        self.expect(mu=np.zeros(0), sigma=skewed)

    def test_pytorch_fids_call(self):
        mu, sigma = np.zeros(3), np.eye(3)
        np.savez_compressed(str(self.path), mu=mu, sigma=sigma)  # as pytorch-fid --save-stats does
        self.expect(mu=mu, sigma=sigma)

    def refuse(self, *words):
        run = self.run_print()
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        for word in ("statistics.npz", *words):
            self.assertIn(word, run.stderr)

    def test_other_contents(self):
        good = {"mu": np.zeros(3), "sigma": np.eye(3)}
        for wrong in (np.arange(3), np.zeros(3, ">f8"), np.zeros(3, np.float16), np.zeros(3, complex)):
            np.savez(self.path, **{**good, "mu": wrong})
            self.refuse("'mu'", "type")
        np.savez(self.path, **{**good, "mu": np.array([None])})
        self.refuse("'mu'", "type")
        np.savez(self.path, mu=np.zeros(3))
        self.refuse("sigma")
        np.save(self.folder / "array.npy", np.zeros(3))
        (self.folder / "array.npy").rename(self.path)
        self.refuse("zip")
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with zipfile.ZipFile(self.path, "w", method) as archive:
                archive.writestr("mu.npy", b"x")
            self.refuse("method")

    def test_damage_and_truncation(self):
        for save in (np.savez, np.savez_compressed):
            save(self.path, mu=np.arange(40.0), sigma=np.eye(40))
            whole = self.path.read_bytes()
            for length in (0, len(whole) // 2, len(whole) - 1):
                self.path.write_bytes(whole[:length])
                self.refuse()
            at = whole.index(b"mu.npy") + 60
            self.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            self.refuse("damaged")


if __name__ == "__main__":
    EXCHANGE = sys.argv.pop(1)
    unittest.main(verbosity=2)
