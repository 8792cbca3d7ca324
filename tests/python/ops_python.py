"""The operators from Python: gradients, tracing, the example of docs/kernels.md, the benchmarks.

Run by ctest: run.sh ops.py LIBRARY NSVQ, libnsvq_ops.so and the program.
"""

import pathlib
import re
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.library import opcheck

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "nsvq" / "ops"))
import nsvq_ops

TAU = 0.35


def plain_loss(z, codebook, indices, tau):
    distances = (z.detach().unsqueeze(1) - codebook).square().sum(2)
    weights = (distances.detach() / -tau).softmax(1).scatter(1, indices.unsqueeze(1), 0)
    return (weights * distances).sum() / z.numel()


def expect_close(ours, plain, tolerance=1e-4):
    for one, other in zip(ours, plain, strict=True):
        error = (one - other).norm() / other.norm()
        assert error < tolerance, error


def draw(device):
    z, codebook = torch.randn(50, 16, device=device) * 0.5, torch.randn(300, 16, device=device) * 0.5
    return z.requires_grad_(), codebook.requires_grad_()


def check_gradients(device, tolerance):
    ops, (z, codebook) = torch.ops.nsvq, draw(device)
    weights = torch.rand(50, device=device)
    indices, distances = ops.nearest_codes(z, codebook)
    assert torch.equal(indices, torch.cdist(z.double(), codebook.double()).argmin(1))
    assert not indices.requires_grad
    plain = (z - codebook[indices]).square().sum(1)
    expect_close([distances], [plain], 1e-6)
    gradients = [torch.autograd.grad((one * weights).sum(), (z, codebook)) for one in (distances, plain)]
    expect_close(*gradients, 1e-6)

    again, distances, loss = ops.ns_quantize(z, codebook, TAU)
    assert torch.equal(indices, again)
    plain = (plain_loss(z, codebook, indices, TAU), (z - codebook[indices]).square().sum(1))
    gradients = [torch.autograd.grad(3 * one + (other * weights).sum(), (z, codebook), retain_graph=True)
                 for one, other in ((loss, distances), plain)]
    expect_close(*gradients, tolerance)
    again = torch.autograd.grad(3 * loss + (distances * weights).sum(), (z, codebook))
    expect_close(again, gradients[0], 1e-6)  # what was saved is as it was

    others = indices.clone()
    others[::3] = torch.randint(300, (17,), device=device)
    for given in (indices, others):
        losses = ops.ns_loss(z, codebook, given, TAU), plain_loss(z, codebook, given, TAU)
        expect_close(*[[one] for one in losses], tolerance)
        expect_close(*[torch.autograd.grad(one, codebook) for one in losses], tolerance)
    assert ops.ns_loss(z, codebook.detach(), indices, TAU).requires_grad is False
    try:
        torch.autograd.grad(ops.ns_loss(z, codebook, indices, TAU), codebook, create_graph=True)
        raise AssertionError("a second derivative was promised")
    except RuntimeError as error:
        assert "second derivative" in str(error)


def check_cosine_and_sums(device):
    ops, (z, codebook) = torch.ops.nsvq, draw(device)
    indices, distances = ops.nearest_codes_cosine(z, codebook)
    units = [F.normalize(one) for one in (z, codebook)]
    assert torch.equal(indices, (units[0].double() @ units[1].double().T).argmax(1))
    plain = (units[0] - units[1][indices]).square().sum(1)
    expect_close(*[torch.autograd.grad(one.sum(), (z, codebook)) for one in (distances, plain)], 1e-5)
    sums = ops.code_sums(z.detach(), indices, 300)
    expect_close([sums], [torch.zeros(300, 16, device=device).index_add(0, indices, z.detach())], 1e-6)


def check_group_norm(device):
    x = torch.randn(2, 64, 9, 7, device=device).to(memory_format=torch.channels_last)
    leaves = [x.requires_grad_(), torch.rand(64, device=device).requires_grad_(),
              torch.randn(64, device=device).requires_grad_()]
    output = torch.ops.nsvq.group_norm_silu(*leaves, 32, 1e-6, True)[0]
    plain = F.silu(F.group_norm(x, 32, *leaves[1:], 1e-6))
    expect_close([output], [plain], 1e-5)
    weights = torch.randn_like(x)
    expect_close(*[torch.autograd.grad(one, leaves, weights) for one in (output, plain)], 1e-5)


def check_tracing(device):
    """opcheck, but for dispatch through AOT of operators that give indices and need gradients: it adds
    outputs up in place, and int64 does not take fp32. These are compiled by hand."""
    ops, (z, codebook) = torch.ops.nsvq, draw(device)
    fixed = z.detach(), codebook.detach()
    indices, _, _, denominators = ops.ns_search(*fixed, TAU)
    for name, *arguments in (("nearest_codes", *fixed), ("ns_quantize", *fixed, TAU),
                             ("ns_search", *fixed, TAU),
                             ("ns_search_with_grad", *fixed, TAU), ("ns_loss", *fixed, indices, TAU),
                             ("ns_loss", z, codebook, indices, TAU),
                             ("ns_codebook_grad", *fixed, indices, denominators, TAU), ("code_usage", indices, 300),
                             ("code_sums", fixed[0], indices, 300),
                             ("softmax_column_sums", *fixed, TAU)):
        opcheck(getattr(ops, name).default, arguments)
    for name, *arguments in (("nearest_codes", z, codebook), ("ns_quantize", z, codebook, TAU)):
        opcheck(getattr(ops, name).default, arguments,
                test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
    x = torch.randn(2, 16, 5, 5, device=device).to(memory_format=torch.channels_last).requires_grad_()
    opcheck(ops.group_norm_silu.default,
            (x, torch.ones(16, device=device), torch.zeros(16, device=device), 4, 1e-6, True))

    def quantizer(z, codebook):
        _, distances, loss = ops.ns_quantize(z, codebook, TAU)
        return distances.mean() + ops.nearest_codes(z, codebook)[1].mean() + loss

    compiled = torch.compile(quantizer, backend="aot_eager", dynamic=True, fullgraph=True)
    for rows in (50, 31):
        losses = [one(z[:rows], codebook) for one in (quantizer, compiled)]
        expect_close(*[[one] for one in losses], 1e-6)
        expect_close(*[torch.autograd.grad(one, (z, codebook)) for one in losses], 1e-6)


def check_descriptions():
    """Each operator of the library has its description, with its arguments as they are."""
    schemas = {schema.name.removeprefix("nsvq::"): schema for schema in torch._C._jit_get_all_schemas()
               if schema.name.startswith("nsvq::")}
    assert schemas.keys() == nsvq_ops.DESCRIPTIONS.keys(), schemas.keys() ^ nsvq_ops.DESCRIPTIONS.keys()
    for name, schema in schemas.items():
        arguments = [argument.name for argument in schema.arguments]
        described = re.match(r"(\w+)\(([^)]*)\)", getattr(torch.ops.nsvq, name).__doc__)
        shown = [word for word in described[2].split(", ") if word != "..."]
        assert described[1] == name and arguments[:len(shown)] == shown, name
        assert shown == arguments or "..." in described[2], name


def check_documentation():
    example = (ROOT / "tests" / "python" / "ops_example.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "docs" / "kernels.md").read_text()


def check_benchmark(library):
    printed = subprocess.run([sys.executable, ROOT / "bench" / "quantizer_torch.py", library, "--device", "cpu",
                              "--rounds", "1", "--backend", "aot_eager"],
                             check=True, capture_output=True, text=True).stdout
    assert printed.count("\n| NS forward") == 4 and printed.count("\n| group_norm_silu") == 2, printed


def main(library):
    nsvq_ops.load(library)
    check_descriptions()
    torch.manual_seed(0)
    for device, tolerance in [("cpu", 1e-4)] + [("cuda", 1e-2)] * torch.cuda.is_available():
        check_gradients(device, tolerance)
        check_cosine_and_sums(device)
        check_group_norm(device)
        check_tracing(device)
    check_documentation()
    check_benchmark(library)


main(*sys.argv[1:])
