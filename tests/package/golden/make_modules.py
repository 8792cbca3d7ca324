"""Makes modules.safetensors, by which test_modules_parity.py compares our modules with those of vector-quantize-pytorch:

    pip install vector-quantize-pytorch==1.32.0 safetensors
    python tests/package/golden/make_modules.py

For each case: x, a mask, the weights of a sum that is trained on, the state before, and all that module_cases.run gives.
"""

import pathlib
import sys

import torch
import vector_quantize_pytorch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import module_cases  # noqa: E402


def main():
    torch.manual_seed(0)
    tensors = {}
    for name in module_cases.names():
        masked = name not in module_cases.CASES
        kind, options, shape, _ = module_cases.CASES[name.removesuffix("_masked") if masked else name]
        module = getattr(vector_quantize_pytorch, kind)(**options)
        x, weights = torch.randn(shape), torch.randn(shape)
        mask = torch.rand(shape[:-1]) < 0.7 if masked else None
        given = {"x": x, "weights": weights, **({"mask": mask} if masked else {})}
        given |= {f"before.{key}": value.clone() for key, value in module.state_dict().items()}
        given |= module_cases.run(module, x, mask, weights)
        tensors |= {f"{name}/{key}": value.contiguous() for key, value in given.items()}
    save_file(tensors, HERE / "modules.safetensors")


if __name__ == "__main__":
    main()
