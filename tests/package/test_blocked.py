"""nsvq.blocked, which serves a GPU where the library has no CUDA kernels, on CPU tensors: against the kernels, and fp64."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from cases import nearest_fp64, normal, ns_loss_fp64, search_cases
from nsvq import _library, blocked  # noqa: F401

CASES = search_cases()
TAU = 0.35


@pytest.fixture(params=[(2**21, 24), (2000, 11), (2000, 8)], ids=["one tile", "small tiles, TF32", "small tiles, bf16"])
def products(request, monkeypatch):
    """How many scores are held at a time, and how many bits of its inputs a product keeps."""
    cells, bits = request.param
    monkeypatch.setattr(blocked, "_CELLS_ELSEWHERE", cells)
    monkeypatch.setattr(blocked, "_product_bits", lambda device: bits)
    if bits < 24:  # what such a product does to values of more bits
        plain = torch.addmm

        def addmm(bias, a, b, **options):
            lossy = a.dtype == torch.float32
            return plain(bias, *(blocked._rounded(one.contiguous(), bits) if lossy else one for one in (a, b)), **options)

        monkeypatch.setattr(torch, "addmm", addmm)
    return bits


@pytest.mark.parametrize("name", CASES)
def test_search(name, products):
    latents, codes = CASES[name]
    indices, distances = blocked.nearest_codes(latents, codes)
    expected, exact = nearest_fp64(latents, codes)
    assert torch.equal(indices, expected[:, 0]) and torch.equal(distances, exact[:, 0].float())
    ours = torch.ops.nsvq.nearest_codes(latents, codes)
    assert torch.equal(indices, ours[0]) and torch.equal(distances, ours[1])


@pytest.mark.parametrize("name", CASES)
def test_k_nearest(name, products):
    latents, codes = CASES[name]
    k = min(4, codes.shape[0])
    indices, distances = blocked.k_nearest(latents, codes, k)
    expected, exact = nearest_fp64(latents, codes, k)
    assert torch.equal(indices, expected) and torch.equal(distances, exact.float())


def test_only_candidates_are_measured(monkeypatch):
    """The scores decide for most pairs: what is measured in fp64 is a small part of all."""
    measured = []
    plain = blocked._Frame.distances
    monkeypatch.setattr(blocked._Frame, "distances",
                        lambda self, latents, rows, codes: measured.append(rows.shape[0]) or plain(self, latents, rows, codes))
    monkeypatch.setattr(blocked, "_product_bits", lambda device: 11)
    blocked.nearest_codes(normal(2000, 32), normal(5000, 32, seed=1))
    assert 2000 <= sum(measured) < 20000, measured


FINITE_FP32 = [name for name in CASES if name not in ("large", "uneven norms", "far away", "latents far away", "small")]


@pytest.mark.parametrize("name", FINITE_FP32)
@pytest.mark.parametrize("cells", [2000, 2**21])
def test_loss_and_gradient(name, cells, monkeypatch):
    monkeypatch.setattr(blocked, "_CELLS_ELSEWHERE", cells)
    latents, codes = CASES[name]
    ours, theirs = blocked.ns_search(latents, codes, TAU), torch.ops.nsvq.ns_search(latents, codes, TAU)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
    for one, other in zip(ours[2:], theirs[2:], strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=1e-6)
    indices, _, losses, denominators = ours
    gradient = blocked.ns_codebook_grad(latents, codes, indices, denominators, TAU)
    expected = torch.ops.nsvq.ns_codebook_grad(latents, codes, indices, denominators, TAU)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4 * expected.abs().max().clamp_min(1e-6).item())
    exact = codes.double().requires_grad_()
    loss = ns_loss_fp64(latents, exact, TAU)
    torch.testing.assert_close(losses.double().sum() / max(1, latents.numel()), loss, rtol=3e-4, atol=1e-7)
    plain = torch.autograd.grad(loss, exact)[0] * max(1, latents.numel()) / 2
    assert (gradient - plain).norm() <= 1e-3 * plain.norm() + 1e-6


@pytest.mark.parametrize("name", CASES)
def test_loss_in_fp64(name):
    """Everything in fp64, also where fp32 holds too little: far away, large, uneven."""
    latents, codes = (one.double() for one in CASES[name])
    spread = codes.std(0, correction=0).square().sum().clamp_min(1e-60).item() if codes.numel() else 1.0
    tau = 0.2 * spread
    indices, _, losses, denominators = blocked.ns_search(latents, codes, tau)
    exact = codes.clone().requires_grad_()
    loss = ns_loss_fp64(latents, exact, tau)
    values = max(1, latents.numel())
    torch.testing.assert_close(losses.sum() / values, loss, rtol=1e-7, atol=0)
    ours = blocked.ns_codebook_grad(latents, codes, indices, denominators, tau) * 2 / values
    plain = torch.autograd.grad(loss, exact)[0]
    assert (ours - plain).norm() <= 1e-7 * plain.norm()


def test_rows_that_are_not_finite():
    """As on a GPU: such a latent gets index -1 and NaN, and adds nothing to the gradient; all do if a code is not finite."""
    latents, codes = normal(9, 4), normal(20, 4, seed=1)
    latents[2, 1], latents[5, 0] = torch.nan, -torch.inf
    bad = torch.tensor([2, 5])
    indices, distances, losses, denominators = blocked.ns_search(latents, codes, TAU)
    good = torch.ones(9, dtype=torch.bool).index_fill(0, bad, False)
    assert (indices[bad] == -1).all() and torch.equal(blocked.nearest_codes(latents, codes)[0], indices)
    for values in (distances, losses, denominators):
        assert torch.equal(values.isnan(), ~good)
    clean = torch.ops.nsvq.ns_search(latents[good], codes, TAU)
    torch.testing.assert_close(losses[good], clean[2])
    gradients = (blocked.ns_codebook_grad(latents, codes, indices, denominators, TAU),
                 torch.ops.nsvq.ns_codebook_grad(latents[good], codes, clean[0], clean[3], TAU))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    codes[3, 2] = torch.nan
    indices, *values = blocked.ns_search(latents, codes, TAU)
    assert (indices == -1).all() and all(one.isnan().all() for one in values)
    assert (blocked.ns_codebook_grad(latents, codes, indices, values[2], TAU) == 0).all()


def test_counts_and_sums():
    latents, indices = normal(200, 7), torch.randint(0, 40, (200,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(blocked.code_usage(indices.view(10, 20), 41), torch.ops.nsvq.code_usage(indices, 41))
    torch.testing.assert_close(blocked.code_sums(latents, indices, 41), torch.ops.nsvq.code_sums(latents, indices, 41))


@pytest.mark.parametrize("call, words", [
    (lambda z, c: blocked.nearest_codes(z, c[:, :2]), r"nearest_codes: latents must be \[N, d\] and codebook \[K, d\]"),
    (lambda z, c: blocked.nearest_codes(z, c[:0]), "nearest_codes: codebook is empty"),
    (lambda z, c: blocked.ns_search(z, c, -1.0), "ns_search: tau must be positive"),
    (lambda z, c: blocked.ns_codebook_grad(z, c, torch.zeros(2), torch.ones(2), 1.0), "indices and denominators must be"),
])
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call(normal(3, 4), normal(5, 4))


def test_no_codes_are_lost_when_products_may_be_rounded():
    """What torch.set_float32_matmul_precision allows does not change the result."""
    latents, codes = normal(300, 64), normal(16, 64, seed=1).repeat(64, 1) + 1e-4 * normal(1024, 64, seed=2)
    expected = nearest_fp64(latents, codes, 3)[0]
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            assert torch.equal(blocked.k_nearest(latents, codes, 3)[0], expected)
    finally:
        torch.set_float32_matmul_precision(before)


def test_in_place_of_kernels():
    """Registered for a dispatch key they serve what is made of them: ns_quantize, gradients, cosine, autocast, tracing."""
    script = textwrap.dedent("""
        import warnings; warnings.simplefilter("ignore")
        import torch
        from nsvq import _library, blocked
        ops, tau = torch.ops.nsvq, 0.35
        torch.manual_seed(0)
        z, c = torch.randn(50, 8).requires_grad_(), torch.randn(300, 8).requires_grad_()
        def work():
            indices, distances, loss = ops.ns_quantize(z, c, tau)
            given = ops.ns_loss(z, c, indices.roll(1), tau)
            cosine, angles = ops.nearest_codes_cosine(z, c)
            return indices, distances, loss, given, cosine, angles, ops.softmax_column_sums(z.detach(), c.detach(), tau)
        def gradients(results):
            return torch.autograd.grad(results[1].sum() + 3 * results[2] + results[3] + results[5].sum(), (z, c))
        before = work()
        before += gradients(before)
        seen = []
        plain = blocked._search
        blocked._search = lambda *given: seen.append(1) or plain(*given)
        blocked.register("CPU")
        def with_grad(z, c, tau):  # the composition that a device without a kernel of its own takes
            found = ops.ns_search(z, c, tau)
            return *found, ops.ns_codebook_grad(z, c, found[0], found[3], tau)
        library = torch.library.Library("nsvq", "IMPL")
        library.impl("ns_search_with_grad", with_grad, "CPU")
        with torch.autocast("cpu", torch.bfloat16):
            after = work()
        after += gradients(after)
        assert len(seen) >= 3, seen
        for one, other in zip(before, after, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
        compiled = torch.compile(lambda: ops.ns_quantize(z, c, tau)[2], backend="aot_eager", fullgraph=True)()
        torch.testing.assert_close(compiled, after[2])
        print("same")
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
    assert done.stdout.strip() == "same", done.stderr
