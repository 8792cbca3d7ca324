"""Modules against formulas in plain torch: indices, gradients, losses, statistics, masks, shapes."""

import cases
import pytest
import torch
from torch.nn import functional as F

import nsvq

NAMES = ("VectorQuantize", "EMA", "NSVQ", "SimVQ", "IBQ")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def nearest(latents, codes):
    """By fp64 distances of the values as they are."""
    return cases.nearest_fp64(latents, codes)[0][:, 0]


def products(latents, codes):
    return (latents.double() @ codes.double().t()).argmax(1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("codes", (1, 33, 3001))
@pytest.mark.parametrize("training", (True, False))
def test_indices_are_exact(name, codes, training):
    """A code that moves in forward is chosen before it moves. IBQ takes the largest product, here of whole numbers."""
    torch.manual_seed(0)
    module = getattr(nsvq, name)(dim=5, codebook_size=codes).train(training)
    x = normal(3, 57, 5)
    if name == "IBQ":
        x, module.codebook = (x * 3).round(), (module.codebook * 3).round()
    codebook = module.codebook.detach().clone()
    expected = (products if name == "IBQ" else nearest)(x.flatten(0, 1), codebook).view(3, 57)
    quantized, indices, _ = module(x)
    assert torch.equal(indices, expected)
    assert torch.equal(quantized, codebook[expected])  # bit for bit


def test_residual_indices_are_exact():
    module = nsvq.ResidualVQ(dim=6, num_quantizers=3, codebook_size=50).eval()
    x = normal(2, 40, 6)
    quantized, indices, losses, codes = module(x, return_all_codes=True)
    residual = x.flatten(0, 1)
    for number in range(3):
        expected = nearest(residual, module.codebooks[number])
        assert torch.equal(indices[..., number].flatten(), expected)
        residual = residual - module.codebooks[number][expected]
    assert losses.shape == (3,) and codes.shape == (3, 2, 40, 6)
    torch.testing.assert_close(codes.sum(0), quantized)
    torch.testing.assert_close(module.get_output_from_indices(indices), quantized)
    torch.testing.assert_close(module.get_output_from_indices(indices[..., :2]), codes[:2].sum(0))


def rotation_gradient(z, code, gradient):
    """docs/quantizers.md, "Rotation": the gradient of sum(gradient * (|c| / |z|) R z) with R and the factor held constant."""
    unit = lambda v: v / v.norm(dim=1, keepdim=True)  # noqa: E731
    start, end = unit(z), unit(code)
    w = unit(start + end)
    identity = torch.eye(z.shape[1], dtype=z.dtype)
    matrices = identity - 2 * w[:, :, None] * w[:, None] + 2 * end[:, :, None] * start[:, None]
    return (matrices.transpose(1, 2) @ gradient[:, :, None])[..., 0] * code.norm(dim=1, keepdim=True) / z.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("rotation", (False, True))
def test_vector_quantize_gradients(rotation):
    module = nsvq.VectorQuantize(dim=6, codebook_size=20, rotation_trick=rotation, commitment_weight=0.7).double()
    x, weights = normal(30, 6).double().requires_grad_(), normal(30, 6, seed=1).double()
    codes = module.codebook.clone()
    quantized, indices, loss = module(x)
    ((quantized * weights).sum() + 3 * loss).backward()
    code = codes[indices]
    through = rotation_gradient(x.detach(), code, weights) if rotation else weights
    torch.testing.assert_close(x.grad, through + 3 * 0.7 * 2 * (x.detach() - code) / x.numel())
    torch.testing.assert_close(loss, 0.7 * F.mse_loss(x, code))


def test_a_learnable_codebook():
    module = nsvq.VectorQuantize(dim=6, codebook_size=20, learnable_codebook=True, ema_update=False).double()
    x = normal(30, 6).double().requires_grad_()
    _, indices, loss = module(x)
    loss.backward()
    codes = module.codebook.detach().clone().requires_grad_()
    F.mse_loss(codes[indices], x.detach()).backward()
    torch.testing.assert_close(module._codebook.embed.grad[0], codes.grad)
    module(x.detach())[0].sum().backward()  # latents without gradients: that of the codes is the codebook's
    torch.testing.assert_close(module._codebook.embed.grad[0] - codes.grad, torch.bincount(indices, minlength=20).double()
                               .unsqueeze(1).expand(20, 6))


@pytest.mark.parametrize("masked", (False, True))
def test_running_means(masked):
    """docs/quantizers.md, "ema", over three steps."""
    module = nsvq.EMA(dim=4, codebook_size=12, decay=0.9, smoothing=1e-3, beta=0.25).double()
    codes = module.codebook.clone()
    counts, sums = torch.ones(12).double(), codes.clone()
    for step in range(3):
        x = normal(2, 25, 4, seed=step).double()
        mask = torch.rand(2, 25, generator=torch.Generator().manual_seed(step)) < 0.6 if masked else None
        quantized, indices, loss = module(x, mask=mask)
        rows = x[mask] if masked else x.flatten(0, 1)
        chosen = nearest(rows, codes)
        assert torch.equal(indices[mask] if masked else indices.flatten(), chosen)
        torch.testing.assert_close(loss, 0.25 * F.mse_loss(rows, codes[chosen]))
        counts = 0.9 * counts + 0.1 * torch.bincount(chosen, minlength=12)
        sums = 0.9 * sums + 0.1 * torch.zeros_like(sums).index_add(0, chosen, rows)
        codes = sums / ((counts + 1e-3) / (counts.sum() + 12e-3) * counts.sum()).unsqueeze(1)
        torch.testing.assert_close(module.codebook, codes)


def ns_loss(z, codes, indices, tau):
    """The NS loss by its formula, with the N x K matrix."""
    distances = (z.unsqueeze(1) - codes).square().sum(2)
    p = (-distances / tau).softmax(1).detach()
    p = p.scatter(1, indices.unsqueeze(1), 0)
    return (p * distances).sum() / z.numel()


@pytest.mark.parametrize("masked", (False, True))
@pytest.mark.parametrize("name", ("NSVQ", "SimVQ"))
def test_ns_loss_and_gradients(name, masked):
    options = {"NSVQ": {"beta": 0.3}, "SimVQ": {"input_to_quantize_commit_loss_weight": 0.3, "rotation_trick": False, "bias": True}}
    module = getattr(nsvq, name)(dim=5, codebook_size=40, alpha=0.2, tau=0.5, **options[name]).double()
    x, weights = normal(30, 5).double().requires_grad_(), normal(30, 5, seed=1).double()
    mask = torch.arange(30) % 3 != 0 if masked else None
    quantized, indices, loss, terms = module(x, mask=mask, return_loss_breakdown=True)
    ((quantized * weights).sum() + 2 * loss).backward()
    found = {key: value.grad.clone() for key, value in module.named_parameters()}

    module.zero_grad()
    z = x.detach().clone().requires_grad_()
    rows, codes = z[mask] if masked else z, module._codes()
    chosen = nearest(rows, codes)
    expected = (F.mse_loss(codes[chosen], rows.detach()) + 0.3 * F.mse_loss(rows, codes[chosen].detach())
                + 0.2 * ns_loss(rows.detach(), codes, chosen, 0.5))
    (2 * expected + (rows * (weights[mask] if masked else weights)).sum()).backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(terms["ns"], ns_loss(rows.detach(), codes, chosen, 0.5).detach())
    torch.testing.assert_close(x.grad, z.grad)
    for key, value in module.named_parameters():
        torch.testing.assert_close(found[key], value.grad)
    assert torch.equal(indices[mask] if masked else indices, chosen)


@pytest.mark.parametrize("pieces", (1, 7))
def test_ibq(monkeypatch, pieces):
    """docs/quantizers.md, "Choices by softmax", with all products at once."""
    from nsvq.quantizers import ibq
    monkeypatch.setattr(ibq, "_PAIRS_AT_A_TIME", 40 * -(-30 // pieces))
    module = nsvq.IBQ(dim=5, codebook_size=40, beta=0.3, entropy=0.2, entropy_temperature=0.5, temperature=0.8).double()
    x, weights = normal(30, 5).double().requires_grad_(), normal(30, 5, seed=1).double()
    quantized, indices, loss = module(x)
    ((quantized * weights).sum() + 2 * loss).backward()
    z, codes = x.detach().clone().requires_grad_(), module.codebook.detach().clone().requires_grad_()
    chosen = products(z, codes)
    soft = (z @ codes.t() / 0.8).softmax(1) @ codes.detach()
    straight = codes[chosen] + soft - soft.detach()
    p = (z @ codes.t() / 0.5).softmax(1)
    entropy = -(p * p.log()).sum(1).mean() + (p.mean(0) * (p.mean(0) + 1e-5).log()).sum()
    expected = (F.mse_loss(straight, z) + F.mse_loss(codes[chosen].detach(), z) + 0.3 * F.mse_loss(codes[chosen], z.detach())
                + 0.2 * entropy)
    ((straight * weights).sum() + 2 * expected).backward()
    assert torch.equal(indices, chosen)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(x.grad, z.grad)
    torch.testing.assert_close(module.codebook.grad, codes.grad)


@pytest.mark.parametrize("masked", (False, True))
def test_lfq_entropies(masked):
    """By the list of all codes."""
    module = nsvq.LFQ(codebook_size=32, entropy_loss_weight=0.4, diversity_gamma=0.7, commitment_loss_weight=0.2).double()
    x = normal(3, 20, 5).double().requires_grad_()
    mask = torch.arange(60).view(3, 20) % 4 != 0 if masked else None
    result, terms = module(x, inv_temperature=1.5, mask=mask, return_loss_breakdown=True)
    result.entropy_aux_loss.backward()
    z = x.detach().clone().requires_grad_()
    rows = z[mask] if masked else z.flatten(0, 1)
    codes = module.get_codes_from_indices(torch.arange(32)).double()
    p = (2 * 1.5 * rows @ codes.t()).softmax(1)
    sample, mean = -(p * p.log()).sum(1).mean(), p.mean(0)
    batch = -(mean * (mean + 1e-5).log()).sum()
    chosen = nearest(rows, codes)
    expected = 0.4 * (sample - 0.7 * batch) + 0.2 * F.mse_loss(rows, codes[chosen])
    expected.backward()
    assert torch.equal(result.indices[mask] if masked else result.indices.flatten(), chosen)
    torch.testing.assert_close(result.entropy_aux_loss, expected)
    torch.testing.assert_close(terms.batch_entropy, batch)
    torch.testing.assert_close(x.grad, z.grad)


def test_fsq_is_its_formula():
    """docs/quantizers.md, "fsq", and every index is the code it names."""
    levels = torch.tensor([5, 4, 3, 8])
    module = nsvq.FSQ(levels.tolist())
    x = (3 * normal(500, 4)).requires_grad_()
    quantized, indices = module(x)
    h, o = (levels - 1) * 1.001 / 2, 0.5 * (levels % 2 == 0)
    inside = torch.tanh(x.detach() + torch.atanh(o / h)) * h - o
    level = inside.round()
    assert torch.equal(quantized, level / (levels // 2))
    strides = torch.tensor([1, 5, 20, 60])
    assert torch.equal(indices, ((level + levels // 2) * strides).sum(1).long())
    quantized.sum().backward()
    z = x.detach().clone().requires_grad_()
    ((torch.tanh(z + torch.atanh(o / h)) * h) / (levels // 2)).sum().backward()
    torch.testing.assert_close(x.grad, z.grad)
    every = torch.arange(module.codebook_size)
    codes = module.get_codes_from_indices(every)
    assert torch.equal(module.codes_to_indices(codes), every) and len(codes.unique(dim=0)) == 480
    assert torch.equal(module.indices_to_codes(indices), quantized)


@pytest.mark.parametrize("msb_first", (False, True))
def test_lfq_indices_are_their_signs(msb_first):
    module = nsvq.LFQ(codebook_size=64, msb_first=msb_first).eval()
    every = torch.arange(64)
    codes = module.get_codes_from_indices(every)
    assert torch.equal(module(codes * 0.3).indices, every) and len(codes.unique(dim=0)) == 64
    assert (codes[1] > 0).nonzero().item() == (5 if msb_first else 0)


def test_half_precision_models_keep_their_levels():
    """Levels are computed in fp32 of whole numbers, whatever the model is cast to."""
    x = (2 * normal(40000, 3)).bfloat16()
    quantized, indices = nsvq.FSQ([8, 6, 5]).bfloat16()(x)
    assert torch.equal(indices, nsvq.FSQ([8, 6, 5])(x.float())[1]) and quantized.dtype is torch.bfloat16
    assert len(indices.unique()) == 240


MAKERS = {
    "VectorQuantize": lambda **o: nsvq.VectorQuantize(8, 30, **o),
    "EMA": lambda **o: nsvq.EMA(8, 30, **o),
    "NSVQ": lambda **o: nsvq.NSVQ(8, 30, **o),
    "SimVQ": lambda **o: nsvq.SimVQ(8, 30, **o),
    "IBQ": lambda **o: nsvq.IBQ(8, 30, **o),
    "ResidualVQ": lambda **o: nsvq.ResidualVQ(dim=8, codebook_size=30, num_quantizers=2, **o),
}


@pytest.mark.parametrize("name", MAKERS)
def test_image_maps(name):
    torch.manual_seed(0)
    image = MAKERS[name](accept_image_fmap=True).eval()
    torch.manual_seed(0)
    sequence = MAKERS[name]().eval()
    x = normal(2, 8, 5, 3)
    quantized, indices, *_ = image(x)
    expected, rows, *_ = sequence(x.flatten(2).transpose(1, 2))
    assert quantized.shape == x.shape and indices.shape[:3] == (2, 5, 3)
    assert torch.equal(quantized.flatten(2).transpose(1, 2), expected)
    assert torch.equal(indices.flatten(1, 2), rows)
    assert torch.equal(image.get_output_from_indices(indices), quantized)


@pytest.mark.parametrize("projected", (False, True))
@pytest.mark.parametrize("name", [*MAKERS, "LFQ"])
def test_masked_latents_count_nowhere(name, projected):
    """Padding may hold anything, and nothing changes if it is left out."""
    if name == "LFQ":
        make = lambda: nsvq.LFQ(dim=8, codebook_size=16 if projected else 256)  # noqa: E731
    else:
        own = {"codebook_dim": 3} if projected and name not in ("SimVQ", "EMA") else {}
        make = lambda: MAKERS[name](**own)  # noqa: E731
    x, mask = normal(2, 10, 8), torch.arange(10) < torch.tensor([[10], [4]])
    padded = x.masked_fill(~mask.unsqueeze(2), torch.nan)
    results = []
    for given, options in ((padded, {"mask": mask}), (torch.cat([x[0], x[1, :4]]).unsqueeze(0), {})):
        torch.manual_seed(0)
        module = make()
        z = given.clone().requires_grad_()
        quantized, indices, loss, *_ = module(z, **options)
        (quantized.sum() + loss.sum()).backward()
        assert all(torch.isfinite(one.grad).all() for one in module.parameters())
        results.append((module, quantized, indices, loss, z.grad))
    (masked, quantized, indices, loss, gradient), (plain, *expected) = results
    assert (quantized[~mask] == 0).all() and (indices[~mask] == -1).all() and (gradient[~mask] == 0).all()
    for value, other in zip((quantized[mask], indices[mask], gradient[mask]), (expected[0][0], expected[1][0], expected[3][0])):
        torch.testing.assert_close(value, other)
    torch.testing.assert_close(loss, expected[2])
    for key, value in masked.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[key])


def test_lens_and_kept_padding():
    module = nsvq.VectorQuantize(8, 30, return_zeros_for_masked_padding=False).eval()
    x = normal(2, 10, 8)
    quantized, indices, _ = module(x, lens=torch.tensor([3, 10]))
    assert torch.equal(quantized[0, 3:], x[0, 3:]) and (indices[0, 3:] == -1).all() and (indices[1] >= 0).all()


@pytest.mark.parametrize("separate", (False, True))
def test_heads(separate):
    module = nsvq.VectorQuantize(dim=10, codebook_size=20, heads=3, codebook_dim=4, separate_codebook_per_head=separate).eval()
    x = normal(2, 7, 10)
    quantized, indices, _ = module(x)
    assert indices.shape == (2, 7, 3)
    rows = module.project_in(x).view(14, 3, 4)
    for head in range(3):
        codes = module.codebook[head] if separate else module.codebook
        assert torch.equal(indices[..., head].flatten(), nearest(rows[:, head], codes))
    codes = module.get_codes_from_indices(indices)
    assert codes.shape == (2, 7, 12)
    torch.testing.assert_close(module.project_out(codes), quantized)
    torch.testing.assert_close(module.get_output_from_indices(indices), quantized)
    assert (module.get_output_from_indices(indices.clone().fill_(-1)) == 0).all()


def test_the_codebook_can_be_set():
    codes = normal(30, 8)
    for name in ("VectorQuantize", "NSVQ", "IBQ"):
        module = MAKERS[name]()
        module.codebook = codes
        assert torch.equal(module.codebook, codes)
        with pytest.raises(ValueError, match=r"codebook must be \[30, 8\], but it is \[29, 8\]"):
            module.codebook = codes[1:]
    module = MAKERS["VectorQuantize"](decay=0.999)
    module.codebook = codes
    module(normal(1, 4, 8))  # the running means were set too
    assert (module.codebook - codes).abs().max() < 0.02


def test_freezing():
    module, x = MAKERS["VectorQuantize"](threshold_ema_dead_code=1), normal(1, 40, 8)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    module(x, freeze_codebook=True)
    module.freeze_codebook = True
    module(x)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    module(x, freeze_codebook=False)
    assert not torch.equal(module.codebook, before["_codebook.embed"][0])
    learnable = MAKERS["VectorQuantize"](learnable_codebook=True, ema_update=False)
    assert not learnable(x, freeze_codebook=True)[2].requires_grad


def test_unused_codes_become_latents():
    torch.manual_seed(0)
    module = nsvq.VectorQuantize(4, 50, threshold_ema_dead_code=2, decay=0.5)
    x = normal(1, 20, 4)
    unused = module._codebook.cluster_size[0] * 0.5 + 0.5 * torch.bincount(module.eval()(x)[1][0], minlength=50) < 2
    module.train()(x)
    is_latent = (module.codebook.unsqueeze(1) == x[0]).all(2)
    assert unused.sum() > 20 and torch.equal(is_latent.any(1).sum(), torch.tensor(20))  # each latent once; the rest wait
    assert (is_latent.sum(0) <= 1).all() and (module._codebook.cluster_size[0][is_latent.any(1)] == 2).all()
    assert not is_latent[~unused].any()
    mask = torch.arange(20).unsqueeze(0) < 7
    module = nsvq.VectorQuantize(4, 50, threshold_ema_dead_code=2, decay=0.5)
    module(x, mask=mask)
    assert (module.codebook.unsqueeze(1) == x[0]).all(2).sum(0).nonzero().flatten().tolist() == list(range(7))


def test_nsvq_replaces_unused_codes():
    torch.manual_seed(0)
    module = nsvq.NSVQ(4, 64)
    optimizer = torch.optim.Adam(module.parameters(), 0)
    x = normal(1, 100, 4)
    _, indices, loss = module(x)
    loss.backward()
    optimizer.step()
    usage = module.usage()
    before, unused = module.codebook.detach().clone(), usage.counts == 0
    assert torch.equal(usage.counts, torch.bincount(indices.flatten(), minlength=64))
    assert module.replace_unused(sigma=0.0, optimizer=optimizer) == unused.sum()
    copies = (module.codebook[unused].unsqueeze(1) == before[~unused]).all(2)
    assert copies.any(1).all() and torch.equal(module.codebook[~unused], before[~unused])
    assert (optimizer.state[module.weight]["exp_avg"][unused] == 0).all()
    assert (optimizer.state[module.weight]["exp_avg"][~unused] != 0).any()
    assert module.usage().counts.sum() == 0 and module.replace_unused() == 0  # nothing was counted: nothing is known


def test_usage():
    module = nsvq.VectorQuantize(4, 8, heads=2, codebook_dim=2, separate_codebook_per_head=True)
    indices = torch.tensor([[[0, 1], [0, 2], [3, 3], [-1, 0]]])
    usage = module.usage(indices)
    assert usage.counts.tolist() == [[2, 0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]]
    assert usage.used == 6 / 16
    first = torch.tensor([2 / 3, 1 / 3], dtype=torch.float64)
    assert abs(usage.perplexity - ((-(first * first.log()).sum()).exp().item() + 4) / 2) < 1e-12
    module(normal(1, 5, 4))
    assert module.usage().counts.sum(1).tolist() == [5, 5]
    module.eval()(normal(1, 5, 4))
    module.reset_usage()
    assert module.usage().counts.sum() == 0


def test_kmeans_start():
    torch.manual_seed(0)
    centres = 10 * normal(6, 4)
    x = (centres.repeat(20, 1) + 0.01 * normal(120, 4, seed=1)).unsqueeze(0)
    module = nsvq.VectorQuantize(4, 6, kmeans_init=True)
    with pytest.raises(ValueError, match="VectorQuantize: the codebook is empty, kmeans_init sets it"):
        module.eval()(x)
    module.train()(x)
    assert bool(module._codebook.initted)
    codes = module.codebook.clone()
    near = (codes.unsqueeze(1) - x[0]).norm(dim=2)
    assert module.usage().used == 1 and near.min(0).values.max() < 10  # Lloyd's from random rows: a mean of whole groups
    restored = nsvq.VectorQuantize(4, 6, kmeans_init=True)
    restored.load_state_dict(module.state_dict())
    assert torch.equal(restored.eval()(x)[1], module.eval()(x)[1])
    few = nsvq.VectorQuantize(4, 16, kmeans_init=True, use_cosine_sim=True)
    few(x[:, :5])
    torch.testing.assert_close(few.codebook.norm(dim=1), torch.ones(16))


def test_cosine():
    module = nsvq.VectorQuantize(6, 30, use_cosine_sim=True)
    x = 5 * normal(2, 40, 6)
    codes = module.codebook.clone()
    quantized, indices, _ = module(x)
    unit = F.normalize(x.flatten(0, 1), dim=1)
    assert torch.equal(indices.flatten(), nearest(unit, codes))
    torch.testing.assert_close((unit.double() @ codes.double().t()).max(1).values,
                               (unit.double() * codes.double()[indices.flatten()]).sum(1))
    torch.testing.assert_close(module.codebook.norm(dim=1), torch.ones(30))
    cosine = nsvq.NSVQ(6, 30, cosine=True)
    assert torch.equal(cosine(x)[1].flatten(), nearest(unit, F.normalize(cosine.codebook, dim=1)))


def test_orthogonal_loss_is_that_of_all_pairs():
    module = nsvq.VectorQuantize(6, 30, orthogonal_reg_weight=1, learnable_codebook=True, ema_update=False).double()
    _, _, _, terms = module(normal(1, 10, 6).double(), return_loss_breakdown=True)
    codes = F.normalize(module.codebook, dim=1)
    torch.testing.assert_close(terms.orthogonal_reg, (codes @ codes.t()).square().sum() / 900 - 1 / 30)
    some = nsvq.VectorQuantize(6, 30, orthogonal_reg_weight=1, orthogonal_reg_max_codes=7, orthogonal_reg_active_codes_only=True)
    assert some(normal(1, 10, 6), return_loss_breakdown=True)[3].orthogonal_reg >= 0


def test_sampled_codes():
    """Shares of the codes are the softmax of distances."""
    module = nsvq.VectorQuantize(3, 5, stochastic_sample_codes=True, sample_codebook_temp=0.5, freeze_codebook=True)
    module.codebook = normal(5, 3, seed=1)
    x = normal(1, 1, 3).expand(1, 20000, 3)
    torch.manual_seed(0)
    shares = torch.bincount(module(x)[1].flatten(), minlength=5) / 20000
    expected = (-(module.codebook - x[0, 0]).norm(dim=1) / 0.5).softmax(0)
    assert (shares - expected).abs().max() < 0.015
    assert torch.equal(module.eval()(x)[1].unique(), nearest(x[0, :1], module.codebook))


def test_directional_reparametrisation():
    torch.manual_seed(0)
    module = nsvq.VectorQuantize(6, 20, directional_reparam=True, directional_reparam_variance=1e-8)
    x = normal(1, 30, 6).requires_grad_()
    quantized, indices, loss = module(x)
    assert (quantized - module.codebook[indices]).abs().max() < 1e-2 and loss == 0
    quantized.square().sum().backward()
    assert (module._codebook.embed.grad[0][indices.unique()] != 0).any() and (x.grad != 0).all()


def test_quantize_dropout():
    torch.manual_seed(0)
    module = nsvq.ResidualVQ(dim=6, num_quantizers=5, codebook_size=20, quantize_dropout=True, quantize_dropout_cutoff_index=1,
                             quantize_dropout_multiple_of=2)
    x, kept = normal(1, 30, 6), set()
    for _ in range(30):
        before = [layer.state_dict() for layer in module.layers]
        before = [{key: value.clone() for key, value in one.items()} for one in before]
        quantized, indices, losses, codes = module(x, return_all_codes=True, freeze_codebook=True)
        torch.testing.assert_close(codes.sum(0), quantized)
        quantized, indices, losses = module(x)
        used = (indices[0, 0] >= 0).sum().item()
        kept.add(used)
        assert (indices[..., :used] >= 0).all() and (indices[..., used:] == -1).all()
        assert (losses[:used] > 0).all() and (losses[used:] == 0).all()
        for layer, old in list(zip(module.layers, before))[used:]:
            assert all(torch.equal(value, old[key]) for key, value in layer.state_dict().items())
    assert kept == {2, 4, 5}
    assert (module.eval()(x)[1] >= 0).all()


def test_shared_codebook():
    module = nsvq.ResidualVQ(dim=6, num_quantizers=3, codebook_size=20, shared_codebook=True, threshold_ema_dead_code=1)
    assert len({layer._codebook.embed.data_ptr() for layer in module.layers}) == 1
    before = module.codebooks[0].clone()
    module(normal(1, 50, 6))
    assert not torch.equal(module.codebooks[0], before) and torch.equal(module.codebooks[0], module.codebooks[2])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float64))
def test_types(name, dtype):
    """Half precision is widened: indices are those of the given values. fp64 latents are searched in fp64."""
    torch.manual_seed(0)
    module = getattr(nsvq, name)(dim=5, codebook_size=200)
    x = normal(1, 90, 5).to(dtype).requires_grad_()
    codes = module.codebook.detach().clone()
    quantized, indices, loss = module(x)
    assert quantized.dtype is dtype and loss.dtype in (torch.float32, torch.float64)
    if name != "IBQ":
        assert torch.equal(indices[0], nearest(x[0].detach(), codes))
    (quantized.sum() + loss).backward()
    assert x.grad.dtype is dtype and torch.isfinite(x.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_autocast(name):
    """Inside, everything is fp32: what autocast makes of the latents before is searched exactly."""
    torch.manual_seed(0)
    module = getattr(nsvq, name)(dim=5, codebook_size=100)
    layer, x = torch.nn.Linear(7, 5), normal(1, 60, 7)
    with torch.autocast("cpu", torch.bfloat16):
        latents = layer(x)
        assert latents.dtype is torch.bfloat16
        codes = module.codebook.detach().float().clone() if name != "SimVQ" else module._codes().float()
        quantized, indices, loss = module(latents)
        (quantized.float().sum() + loss).backward()
    assert quantized.dtype is torch.bfloat16 and loss.dtype is torch.float32
    if name == "SimVQ":
        codes = module.frozen_codebook @ module.code_transform.weight.t()
    if name != "IBQ":
        assert torch.equal(indices[0], nearest(latents[0].detach(), codes))


@pytest.mark.parametrize("name", [*MAKERS, "FSQ", "LFQ"])
@pytest.mark.parametrize("training", (True, False))
def test_nan_is_an_error_on_a_cpu(name, training):
    makers = {**MAKERS, "FSQ": lambda: nsvq.FSQ([3] * 8), "LFQ": lambda: nsvq.LFQ(codebook_size=256)}
    module, x = makers[name]().train(training), normal(1, 5, 8)
    x[0, 2, 3] = torch.nan
    with pytest.raises((RuntimeError, ValueError), match="not finite|hold NaN or infinity"):
        module(x)


@pytest.mark.parametrize("name", [*MAKERS, "FSQ", "LFQ"])
def test_no_latents(name):
    makers = {**MAKERS, "VectorQuantize": lambda: nsvq.VectorQuantize(8, 30, threshold_ema_dead_code=1),
              "FSQ": lambda: nsvq.FSQ([3] * 8), "LFQ": lambda: nsvq.LFQ(codebook_size=256)}
    quantized, indices, *_ = makers[name]()(torch.zeros(0, 4, 8))
    assert quantized.shape == (0, 4, 8) and indices.shape[:2] == (0, 4)


def test_deterministic_mode():
    """Two runs of three steps have equal bits, and nothing refuses torch.use_deterministic_algorithms."""
    torch.use_deterministic_algorithms(True)
    try:
        for make in MAKERS.values():
            states = []
            for _ in range(2):
                torch.manual_seed(0)
                module = make()
                optimizer = torch.optim.Adam([*module.parameters(), torch.nn.Parameter(torch.zeros(1))], 1e-2)
                for step in range(3):
                    x = normal(2, 60, 8, seed=step).requires_grad_()
                    quantized, _, loss, *_ = module(x)
                    (quantized.square().sum() + loss.sum()).backward()
                    optimizer.step()
                states.append({**module.state_dict(), "x": x.grad})
            assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    finally:
        torch.use_deterministic_algorithms(False)
