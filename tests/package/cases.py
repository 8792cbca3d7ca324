"""Latents and codes that a search may get wrong, as tests/ops/cases_test.cpp has them for the kernels."""

import torch


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def search_cases():
    """{name: (latents, codes)}"""
    cases = {}
    for n, k, d in ((1, 1, 1), (31, 33, 31), (33, 31, 33), (64, 1000, 8), (100, 701, 16), (0, 5, 4), (40, 77, 130)):
        cases[f"{n}x{k}x{d}"] = normal(n, d), normal(k, d, seed=1)
    grid = torch.randint(-2, 3, (200, 3), generator=torch.Generator().manual_seed(2)).float()
    cases["ties"] = grid[:60] + 0.5, grid  # whole numbers between: many exact ties, and duplicates
    cases["duplicates"] = normal(50, 8), normal(20, 8, seed=1).repeat(40, 1)
    crowd = normal(16, 24, seed=1).repeat(64, 1) + 1e-5 * normal(1024, 24, seed=2)
    cases["crowds"] = normal(80, 24) + 0.1, crowd
    cases["far away"] = 1000 + normal(70, 12), 1000 + normal(500, 12, seed=1)
    cases["latents far away"] = 1e6 + normal(30, 12), normal(300, 12, seed=1)
    cases["uneven norms"] = normal(90, 10), normal(600, 10, seed=1) * torch.logspace(-6, 5, 600)[:, None]
    cases["small"] = normal(60, 6) * 1e-20, normal(200, 6, seed=1) * 1e-20
    cases["large"] = normal(60, 6) * 1e15, normal(200, 6, seed=1) * 1e15
    cases["zeros"] = torch.zeros(7, 5), torch.zeros(9, 5)
    cases["strided"] = normal(40, 20)[::2, ::2], normal(30, 300, seed=1).t()[:, 3:13]
    return cases


def distances_fp64(latents, codes):
    """Squared distances [N, K] by fp64 differences, added in the order of components."""
    return (latents.double()[:, None] - codes.double()[None]).square().cumsum(2)[..., -1]


def nearest_fp64(latents, codes, k=1):
    """The definition: the least distances, the lowest index on ties."""
    distances, indices = distances_fp64(latents, codes).sort(dim=1, stable=True)
    return indices[:, :k], distances[:, :k]


def ns_loss_fp64(latents, codes, tau):
    """The NS loss with the matrix of distances, in fp64."""
    distances = distances_fp64(latents.detach(), codes)
    winners = distances.argmin(1, keepdim=True)
    weights = (distances.detach() / -tau).softmax(1).scatter(1, winners, 0)
    return (weights * distances).sum() / max(1, latents.numel())
