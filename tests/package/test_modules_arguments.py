"""Arguments of modules: each that is refused says what to use, and bad values are named."""

import pytest
import torch

import nsvq
from nsvq.quantizers import fsq, lfq, residual, vector_quantize

OTHER_VALUES = {bool: True, int: 3, float: 0.5, type(None): 0.5}


def other_than(neutral):
    value = OTHER_VALUES[type(neutral)]
    return not neutral if isinstance(neutral, bool) else value


CONSTRUCTORS = {
    "VectorQuantize": (lambda **o: nsvq.VectorQuantize(8, 16, **o), vector_quantize._REFUSED),
    "ResidualVQ": (lambda **o: nsvq.ResidualVQ(dim=8, codebook_size=16, num_quantizers=2, **o), residual._REFUSED),
    "FSQ": (lambda **o: nsvq.FSQ([5, 5], **o), fsq._REFUSED),
    "LFQ": (lambda **o: nsvq.LFQ(codebook_size=16, **o), lfq._REFUSED),
}
CALLS = {
    "VectorQuantize": (lambda **o: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 2, 8), **o), vector_quantize._REFUSED_IN_FORWARD),
    "ResidualVQ": (lambda **o: nsvq.ResidualVQ(dim=8, codebook_size=16, num_quantizers=2)(torch.zeros(1, 2, 8), **o),
                   residual._REFUSED_IN_FORWARD),
}


@pytest.mark.parametrize("owner,make,refused,name", [
    (owner, make, refused, name) for table in (CONSTRUCTORS, CALLS) for owner, (make, refused) in table.items() for name in refused])
def test_refused_arguments(owner, make, refused, name):
    neutral, instead = refused[name]
    for value in neutral:
        make(**{name: value})  # their default asks for nothing
    with pytest.raises(ValueError) as error:
        make(**{name: other_than(neutral[0])})
    assert str(error.value) == f"{owner}: {name} is not supported; {instead}"


@pytest.mark.parametrize("make,starts", [
    (lambda: nsvq.VectorQuantize(8, 16, codebook_dims=4), "VectorQuantize: unknown argument 'codebook_dims'; it takes dim, codebook"),
    (lambda: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 8), masks=1), "VectorQuantize: unknown argument 'masks'; it takes x, indices, "),
    (lambda: nsvq.SimVQ(8, 16, codebook_dim=4), "SimVQ: unknown argument 'codebook_dim'; it takes dim, codebook_size, "),
    (lambda: nsvq.FSQ([5], heads=4), "FSQ: unknown argument 'heads'; it takes levels, dim, num_codebooks"),
    (lambda: nsvq.LFQ(bits=4), "LFQ: unknown argument 'bits'; it takes dim, codebook_size, "),
    (lambda: nsvq.ResidualVQ(dim=8, codebook_size=4, num_quantizers=2, colour=1), "VectorQuantize: unknown argument 'colour'"),
])
def test_unknown_arguments(make, starts):
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value).startswith(starts) and "\n" not in str(error.value)


IMAGE = {"accept_image_fmap": True}
BAD_VALUES = [
    (lambda: nsvq.VectorQuantize(8, 0), "VectorQuantize: codebook_size must be an integer of at least 1, but it is 0"),
    (lambda: nsvq.VectorQuantize(8, 16, heads=1.5), "VectorQuantize: heads must be an integer of at least 1, but it is 1.5"),
    (lambda: nsvq.VectorQuantize(8, 16, decay=1.5), "VectorQuantize: decay must be between 0 and 1, but it is 1.5"),
    (lambda: nsvq.VectorQuantize(8, 16, threshold_ema_dead_code=-1),
     "VectorQuantize: threshold_ema_dead_code must be at least 0, but it is -1"),
    (lambda: nsvq.VectorQuantize(8, 16, learnable_codebook=True),
     "VectorQuantize: learnable_codebook needs ema_update=False: one of them moves the codes"),
    (lambda: nsvq.VectorQuantize(8, 16, learnable_codebook=True, ema_update=False, use_cosine_sim=True),
     "VectorQuantize: learnable_codebook and use_cosine_sim do not go together; nsvq.NSVQ has both (cosine)"),
    (lambda: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 3, 7)),
     "VectorQuantize: x must be [..., 8] of floating point, but it has 7 channels of torch.float32"),
    (lambda: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 3, 8).long()),
     "VectorQuantize: x must be [..., 8] of floating point, but it has 8 channels of torch.int64"),
    (lambda: nsvq.VectorQuantize(8, 16, **IMAGE)(torch.zeros(1, 3, 8)),
     "VectorQuantize: x must be [B, 8, H, W], but it is [1, 3, 8]"),
    (lambda: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 3, 8), mask=torch.ones(1, 4).bool()),
     "VectorQuantize: mask must be booleans [1, 3], but it is torch.bool [1, 4]"),
    (lambda: nsvq.VectorQuantize(8, 16)(torch.zeros(1, 3, 8), mask=torch.ones(1, 3)),
     "VectorQuantize: mask must be booleans [1, 3], but it is torch.float32 [1, 3]"),
    (lambda: nsvq.NSVQ(8, 16, tau=0), "NSVQ: tau must be at least 1e-30, but it is 0"),
    (lambda: nsvq.NSVQ(8, 16, heads=3), "NSVQ: dim is 8, which 3 heads do not divide; set codebook_dim"),
    (lambda: nsvq.NSVQ(8, 16).replace_unused(source="best"), "NSVQ: source must be usage or most_used, but it is 'best'"),
    (lambda: nsvq.IBQ(8, 16, temperature=0), "IBQ: temperature and entropy_temperature must be positive, but they are 0 and 0.01"),
    (lambda: nsvq.FSQ([8, 2]), "FSQ: levels must be an integer of at least 3, but it is 2"),
    (lambda: nsvq.FSQ([4097] * 2), "FSQ: levels must be one or more with a product of at most 16777216, but they are [4097, 4097]"),
    (lambda: nsvq.LFQ(codebook_size=48), "LFQ: codebook_size must be a power of 2, at most 2^24, but it is 48"),
    (lambda: nsvq.LFQ(dim=25), "LFQ: codebook_size must be a power of 2, at most 2^24, but it is 2^25"),
    (lambda: nsvq.LFQ(), "LFQ: give dim, codebook_size or both"),
    (lambda: nsvq.ResidualVQ(dim=8, codebook_size=16), "ResidualVQ: give num_quantizers, or a codebook_size for each"),
    (lambda: nsvq.ResidualVQ(dim=8, codebook_size=(4, 8), shared_codebook=True),
     "ResidualVQ: codebook_size must be one number or 2, equal ones with shared_codebook, but it is (4, 8)"),
    (lambda: nsvq.ResidualVQ(dim=8, codebook_size=16, num_quantizers=2).get_codes_from_indices(torch.zeros(1, 3).long()),
     "ResidualVQ: indices have 3 quantizers, but there are 2"),
    (lambda: nsvq.GroupedResidualVQ(dim=8, groups=3, codebook_size=16, num_quantizers=2),
     "GroupedResidualVQ: groups is 3, which does not divide dim 8"),
]


@pytest.mark.parametrize("make,message", BAD_VALUES, ids=[message[:40] for _, message in BAD_VALUES])
def test_bad_values(make, message):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == message


def test_calls_of_vector_quantize_pytorch():
    """The ways in which users of vector-quantize-pytorch call its classes give the same shapes here."""
    def shapes(module, *shape, **options):
        return [tuple(one.shape) for one in module(torch.randn(*shape), **options)]

    rows, images = (1, 100, 32), (1, 32, 8, 8)
    plain = [rows, (1, 100), ()]
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, decay=0.8, commitment_weight=1.0), *rows) == plain
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, codebook_dim=4), *rows) == plain
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, use_cosine_sim=True), *rows) == plain
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, threshold_ema_dead_code=2), *rows) == plain
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, directional_reparam=True, directional_reparam_variance=5e-3,
                                      threshold_ema_dead_code=2), *rows) == plain
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_size=64, accept_image_fmap=True, orthogonal_reg_weight=10,
                                      orthogonal_reg_max_codes=16), *images) == [images, (1, 8, 8), ()]
    assert shapes(nsvq.VectorQuantize(dim=32, codebook_dim=4, heads=8, separate_codebook_per_head=True, codebook_size=64,
                                      accept_image_fmap=True), *images) == [images, (1, 8, 8, 8), ()]
    residual_shapes = [rows, (1, 100, 3), (3,)]
    assert shapes(nsvq.ResidualVQ(dim=32, num_quantizers=3, codebook_size=64), *rows) == residual_shapes
    assert shapes(nsvq.ResidualVQ(dim=32, num_quantizers=3, codebook_size=64, kmeans_init=True, kmeans_iters=3), *rows,
                  return_all_codes=True) == [*residual_shapes, (3, *rows)]
    assert shapes(nsvq.ResidualVQ(dim=32, num_quantizers=3, codebook_size=64, shared_codebook=True, stochastic_sample_codes=True,
                                  sample_codebook_temp=0.1), *rows) == residual_shapes
    assert shapes(nsvq.ResidualVQ(dim=32, num_quantizers=3, codebook_size=64, diveq=True), *rows) == residual_shapes
    assert shapes(nsvq.GroupedResidualVQ(dim=32, num_quantizers=3, groups=2, codebook_size=64),
                  *rows) == [rows, (2, 1, 100, 3), (2, 3)]
    assert nsvq.RandomProjectionQuantizer(dim=32, num_codebooks=4, codebook_dim=16, codebook_size=64)(
        torch.randn(rows)).shape == (1, 100, 4)

    simvq, x = nsvq.SimVQ(dim=32, codebook_size=64), torch.randn(rows)
    quantized, indices, _ = simvq(x)
    assert torch.allclose(quantized, simvq.indices_to_codes(indices), atol=1e-6)
    transform = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 32))
    assert shapes(nsvq.SimVQ(dim=32, codebook_size=64, codebook_transform=transform, frozen_codebook_dim=16, channel_first=True),
                  *images) == [images, (1, 8, 8), ()]
    chain = nsvq.ResidualSimVQ(dim=32, num_quantizers=3, codebook_size=64)
    quantized, indices, losses = chain(x)
    assert torch.allclose(quantized, chain.get_output_from_indices(indices), atol=1e-6) and losses.shape == (3,)

    fsq_module = nsvq.FSQ([8, 5, 5, 5])
    quantized, indices = fsq_module(torch.randn(1, 100, 4))
    assert indices.shape == (1, 100) and torch.equal(quantized, fsq_module.indices_to_codes(indices))
    signs = nsvq.LFQ(codebook_size=2**16, dim=16, entropy_loss_weight=0.1, diversity_gamma=1.0)
    result = signs(torch.randn(1, 16, 8, 8), inv_temperature=100.0)
    assert result.indices.shape == (1, 8, 8) and torch.equal(result.quantized, signs.indices_to_codes(result.indices))
    several = nsvq.LFQ(codebook_size=64, dim=24, num_codebooks=4)
    quantized, indices, _ = several(torch.randn(1, 24, 8, 8))
    assert indices.shape == (1, 8, 8, 4) and torch.equal(quantized, several.indices_to_codes(indices))
    video, indices, _ = nsvq.LFQ(codebook_size=64, dim=6)(torch.randn(1, 6, 2, 8, 8))
    assert video.shape == (1, 6, 2, 8, 8) and indices.shape == (1, 2, 8, 8)
