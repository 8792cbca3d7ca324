"""nearest, ns_loss and kmeans against their definitions in fp64."""

import pytest
import torch

import nsvq
from cases import nearest_fp64, normal, ns_loss_fp64, search_cases

CASES = search_cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("type", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_nearest_is_exact(name, type):
    x, codes = (one.to(type) for one in CASES[name])
    if not (torch.isfinite(x).all() and torch.isfinite(codes).all()):
        pytest.skip("fp16 does not hold these")
    for k in {1, min(3, codes.shape[0]), min(40, codes.shape[0])}:
        indices, distances = nsvq.nearest(x, codes, k)
        expected, exact = nearest_fp64(x, codes, k)
        shape = (x.shape[0],) if k == 1 else (x.shape[0], k)
        assert indices.shape == distances.shape == shape and indices.dtype == torch.int64
        assert torch.equal(indices.view(expected.shape), expected)
        wide = torch.float64 if type == torch.float64 else torch.float32
        assert distances.dtype == wide and torch.equal(distances.view(expected.shape), exact.to(wide))


def test_nearest_of_many_codes():
    """cdist in fp64, many tiles of both latents and codes."""
    x, codes = normal(1000, 16), normal(20000, 16, seed=1)
    exact = torch.cdist(x.double(), codes.double(), compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(nsvq.nearest(x, codes).indices, exact.argmin(1))
    assert torch.equal(nsvq.nearest(x, codes, k=5).indices, exact.topk(5, largest=False).indices)


def test_nearest_keeps_leading_shapes():
    x, codes = normal(2, 3, 4, 8), normal(50, 8, seed=1)
    flat = nsvq.nearest(x.view(-1, 8), codes, k=2)
    assert torch.equal(nsvq.nearest(x, codes, k=2).indices, flat.indices.view(2, 3, 4, 2))
    assert nsvq.nearest(x, codes).indices.shape == (2, 3, 4) and nsvq.nearest(x[0, 0, 0], codes).indices.shape == ()


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("type", [torch.float32, torch.float64])
def test_distances_have_gradients(k, type):
    x, codes = normal(20, 6).to(type).requires_grad_(), normal(30, 6, seed=1).to(type).requires_grad_()
    weights = normal(20, k, seed=3).to(type)
    found = nsvq.nearest(x, codes, k)
    plain = (x[:, None] - codes[found.indices.view(20, k)]).square().sum(2)
    ours = torch.autograd.grad((found.distances.view(20, k) * weights).sum(), (x, codes))
    for one, other in zip(ours, torch.autograd.grad((plain * weights).sum(), (x, codes)), strict=True):
        torch.testing.assert_close(one, other)


# In fp32 the plain formula has no digits left either where latents lie far away or norms are uneven.
HELD_BY_FP32 = [name for name in CASES if name not in ("large", "small", "far away", "latents far away", "uneven norms")]


@pytest.mark.parametrize("name, type", [*((name, torch.float32) for name in HELD_BY_FP32),
                                        *((name, torch.float64) for name in [*HELD_BY_FP32, "small", "far away"])])
def test_ns_loss(name, type):
    x, codes = (one.to(type) for one in CASES[name])
    codes = codes.clone().requires_grad_()
    exact = codes.detach().double().requires_grad_()
    tau = 0.35 * (1 if name != "small" else 1e-40)
    ours, plain = nsvq.ns_loss(x, codes, tau), ns_loss_fp64(x, exact, tau)
    close = {"rtol": 1e-9, "atol": 1e-12} if type == torch.float64 else {"rtol": 3e-4, "atol": 1e-6}
    if name == "small":
        close["atol"] = 0
    assert ours.dtype == type
    torch.testing.assert_close(ours.double(), plain, **close)
    gradients = [torch.autograd.grad(one * 3, to)[0].double() for one, to in ((ours, codes), (plain, exact))]
    scale = gradients[1].abs().max().item()
    torch.testing.assert_close(*gradients, rtol=close["rtol"], atol=close["rtol"] * scale)


def test_ns_loss_by_finite_differences():
    codes = normal(7, 4).double().requires_grad_()
    x = normal(5, 4, seed=1).double()

    def loss_with_fixed_weights(codes, fixed=codes.detach().clone()):
        weights = (torch.cdist(x, fixed).square() / -0.5).softmax(1)
        weights = weights.scatter(1, torch.cdist(x, fixed).argmin(1, keepdim=True), 0)
        return (weights * torch.cdist(x, codes).square()).sum() / x.numel()

    ours = torch.autograd.grad(nsvq.ns_loss(x, codes, 0.5), codes)[0]
    step, numeric = 1e-6, torch.zeros_like(ours)
    for i in range(codes.numel()):
        ends = []
        for sign in (1, -1):
            moved = codes.detach().clone()
            moved.view(-1)[i] += sign * step
            ends.append(loss_with_fixed_weights(moved))
        numeric.view(-1)[i] = (ends[0] - ends[1]) / (2 * step)
    torch.testing.assert_close(ours, numeric, rtol=1e-6, atol=1e-9)
    with pytest.raises(RuntimeError, match="once_differentiable|second derivative|does not require grad"):
        first = torch.autograd.grad(nsvq.ns_loss(x, codes, 0.5), codes, create_graph=True)[0]
        torch.autograd.grad(first.sum(), codes)


def test_values_that_are_not_finite():
    x, codes = normal(5, 4), normal(6, 4, seed=1)
    for bad in (torch.nan, torch.inf):
        for k in (1, 2):
            broken = x.clone()
            broken[2, 1] = bad
            with pytest.raises(RuntimeError, match="latents hold NaN or infinity"):
                nsvq.nearest(broken, codes, k)
            with pytest.raises(RuntimeError, match="codebook holds NaN or infinity"):
                nsvq.nearest(x, torch.full_like(codes, bad), k)


@pytest.mark.parametrize("call, words", [
    (lambda x, c: nsvq.nearest(x, c, k=0), "k must be a whole number from 1 to 6"),
    (lambda x, c: nsvq.nearest(x, c, k=7), "k must be a whole number from 1 to 6"),
    (lambda x, c: nsvq.nearest(x, c, k=1.5), "k must be a whole number"),
    (lambda x, c: nsvq.nearest(x.long(), c), "x must be fp32, bf16, fp16 or fp64, but it is torch.int64"),
    (lambda x, c: nsvq.nearest([1, 2], c), "x must be a tensor, but it is list"),
    (lambda x, c: nsvq.nearest(x, c[0]), r"codes must be \[K, d\]"),
    (lambda x, c: nsvq.nearest(x, c[:0]), r"codes must be \[K, d\] with K > 0"),
    (lambda x, c: nsvq.nearest(x[:, :3], c), r"x must be \[..., d\] with d = 4"),
    (lambda x, c: nsvq.nearest(x.to("meta"), c), "codes are on cpu, but x is on meta"),
    (lambda x, c: nsvq.ns_loss(x, c, 0.0), "tau must be a positive number"),
    (lambda x, c: nsvq.kmeans(x, 6), "k must be a whole number from 1 to 5, the rows of x"),
    (lambda x, c: nsvq.kmeans(x, 2, start="best"), "start must be 'random' or 'k-means"),
    (lambda x, c: nsvq.kmeans(x, 2, iterations=-1), "iterations must be a whole number"),
    (lambda x, c: nsvq.kmeans(x[0], 2), "x must be a tensor"),
])
def test_errors_name_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call(normal(5, 4), normal(6, 4, seed=1))


@pytest.mark.parametrize("start", ["random", "k-means++"])
def test_kmeans_finds_clusters_that_lie_apart(start):
    centres = torch.tensor([[0.0, 0], [10, 0], [0, 10], [10, 10]])
    x = (centres.repeat_interleave(50, 0) + 0.1 * normal(200, 2)).view(4, 50, 2)
    found = nsvq.kmeans(x, 4, start="k-means++" if start == "k-means++" else start, seed=1, iterations=30)
    assert found.counts.sum() == 200 and found.codes.dtype == x.dtype
    if start == "k-means++":
        assert torch.equal(found.counts, torch.full((4,), 50))
        apart = torch.cdist(found.codes, x.mean(1)).amin(1)
        assert apart.max() < 1e-4, found.codes


def test_kmeans_is_lloyds_algorithm_and_the_seed_decides():
    x = normal(500, 5)
    before, after = nsvq.kmeans(x, 8, iterations=3, seed=4), nsvq.kmeans(x, 8, iterations=4, seed=4)
    winners = torch.cdist(x.double(), before.codes.double()).argmin(1)
    means = torch.stack([x[winners == j].double().mean(0) for j in range(8)])
    torch.testing.assert_close(after.codes, means.float())
    assert torch.equal(before.counts, torch.bincount(winners, minlength=8))
    assert torch.equal(after.codes, nsvq.kmeans(x, 8, iterations=4, seed=4).codes)
    assert not torch.equal(after.codes, nsvq.kmeans(x, 8, iterations=4, seed=5).codes)


def test_kmeans_seeds_empty_clusters_anew():
    """Ten copies of one row and one far away: a random start of three has equal codes, of which two stay empty."""
    x = torch.cat([torch.zeros(10, 2), torch.tensor([[5.0, 5], [9, 9]])])
    found = nsvq.kmeans(x, 3, iterations=10, seed=0)
    assert (found.counts > 0).all(), found
    assert nsvq.kmeans(x.double(), 12).counts.shape == (12,)


def test_kmeans_of_fp64_and_half():
    for type in (torch.float64, torch.bfloat16):
        found = nsvq.kmeans(normal(100, 3).to(type), 5)
        assert found.codes.dtype == type and found.counts.sum() == 100


def compiled(function):
    return torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)


@pytest.mark.parametrize("type", [torch.float32, torch.float64])
def test_functions_compile_into_one_graph(type):
    x, codes = normal(40, 6).to(type), normal(30, 6, seed=1).to(type).requires_grad_()

    def work(x, codes):
        nearest = nsvq.nearest(x, codes).distances.mean() + nsvq.nearest(x, codes, 3).distances.mean()
        return nearest + nsvq.ns_loss(x, codes, 0.3)

    for rows in (40, 17):
        results = [one(x[:rows], codes) for one in (work, compiled(work))]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*[torch.autograd.grad(one, codes)[0] for one in results])


def test_autocast_changes_nothing():
    x, codes = normal(300, 32), normal(200, 32, seed=1)
    plain = nsvq.nearest(x, codes, 4), nsvq.ns_loss(x.double(), codes, 0.3)
    with torch.autocast("cpu", torch.bfloat16):
        cast = nsvq.nearest(x, codes, 4), nsvq.ns_loss(x.double(), codes, 0.3)
    assert torch.equal(plain[0].indices, cast[0].indices) and torch.equal(plain[0].distances, cast[0].distances)
    assert torch.equal(plain[1], cast[1])


def test_no_matrix_of_all_distances():
    """8,192 latents and 65,536 codes: the matrix would take 2 GiB in fp32."""
    import resource
    x, codes = normal(8192, 4), normal(65536, 4, seed=1)
    nsvq.nearest(x[:10], codes, 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nsvq.nearest(x, codes, 2)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20 < 0.5  # GiB
