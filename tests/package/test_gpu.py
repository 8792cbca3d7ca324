"""The functions on a GPU: by the library's kernels where it has them, and by nsvq.blocked, which serves a GPU without them."""

import pytest
import torch

import nsvq
from cases import nearest_fp64, normal, ns_loss_fp64, search_cases
from nsvq import blocked

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CASES = search_cases()


@pytest.mark.parametrize("tf32", ["highest", "high"])
@pytest.mark.parametrize("name", CASES)
def test_nearest(name, tf32):
    x, codes = CASES[name]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(tf32)
    try:
        for k in {1, min(4, codes.shape[0])}:
            expected, exact = nearest_fp64(x, codes, k)
            indices, distances = (one.cpu().view(expected.shape) for one in nsvq.nearest(x.cuda(), codes.cuda(), k))
            assert torch.equal(indices, expected) and torch.equal(distances, exact.float())
            indices, distances = (one.cpu() for one in blocked.k_nearest(x.cuda(), codes.cuda(), k))
            assert torch.equal(indices, expected) and torch.equal(distances, exact.float())
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("type", [torch.float32, torch.float64])
def test_loss_and_gradient(type):
    x, codes = normal(700, 24).to(type), normal(3000, 24, seed=1).to(type)
    exact, ours = codes.double().requires_grad_(), codes.cuda().requires_grad_()
    losses = nsvq.ns_loss(x.cuda(), ours, 0.35), ns_loss_fp64(x, exact, 0.35)
    tolerance = 1e-9 if type == torch.float64 else 1e-2
    assert abs(losses[0].item() - losses[1].item()) <= tolerance * losses[1].item()
    gradients = torch.autograd.grad(losses[0], ours)[0].cpu().double(), torch.autograd.grad(losses[1], exact)[0]
    assert (gradients[0] - gradients[1]).norm() <= tolerance * gradients[1].norm()


def test_blocked_loss_and_gradient_without_tf32():
    x, codes = normal(700, 24), normal(3000, 24, seed=1)
    indices, _, losses, denominators = blocked.ns_search(x.cuda(), codes.cuda(), 0.35)
    exact = codes.double().requires_grad_()
    loss = ns_loss_fp64(x, exact, 0.35)
    torch.testing.assert_close(losses.double().sum().cpu() / x.numel(), loss.detach(), rtol=1e-4, atol=0)
    gradient = blocked.ns_codebook_grad(x.cuda(), codes.cuda(), indices, denominators, 0.35).cpu() * 2 / x.numel()
    plain = torch.autograd.grad(loss, exact)[0]
    assert (gradient - plain).norm() <= 1e-3 * plain.norm()


def test_counts_and_sums_repeat():
    x, indices = normal(5000, 9).cuda(), torch.randint(0, 40, (5000,)).cuda()
    assert torch.equal(blocked.code_usage(indices, 41), torch.bincount(indices, minlength=41))
    sums = [blocked.code_sums(x, indices, 41) for _ in range(5)]
    assert all(torch.equal(sums[0], one) for one in sums)
    torch.testing.assert_close(sums[0], torch.zeros(41, 9, device="cuda").index_add(0, indices, x))


def test_rows_that_are_not_finite():
    x, codes = normal(9, 4), normal(20, 4, seed=1)
    x[2, 1] = torch.nan
    indices, distances = nsvq.nearest(x.cuda(), codes.cuda(), 3)
    assert (indices[2] == -1).all() and distances[2].isnan().all() and (indices[3] >= 0).all()


def test_kmeans():
    x = normal(2000, 6)
    found, again = nsvq.kmeans(x.cuda(), 12, seed=1), nsvq.kmeans(x, 12, seed=1)
    torch.testing.assert_close(found.codes.cpu(), again.codes, rtol=1e-4, atol=1e-4)
    assert found.counts.sum() == 2000
