"""torch.library.opcheck over the library's operators."""

import pytest
import torch
from torch.library import opcheck

from cases import normal
from nsvq import _library, blocked  # noqa: F401

TAU = 0.35
OPS = torch.ops.nsvq
Z, C = normal(20, 8), normal(30, 8, seed=1)
INDICES, _, _, DENOMINATORS = OPS.ns_search(Z, C, TAU)
IMAGE, OTHER = (normal(2, 16, 4, 6, seed=seed).to(memory_format=torch.channels_last) for seed in (2, 3))
ONES, SEED = torch.ones(16), torch.tensor(3)
ROWS, BITS = normal(4, 16), torch.full((4, 2), 7, dtype=torch.uint8)
BF16_ROWS, TURNS = ROWS.bfloat16(), torch.polar(torch.ones(3, 2), normal(3, 2))
NORM = (ONES, ONES, 4, 1e-6, True)


def leaf(tensor):
    return tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_()


def half(*shape):
    return normal(*shape).bfloat16()


TRACED = {
    "nearest_codes": (Z, C), "ns_quantize": (Z, C, TAU), "ns_search": (Z, C, TAU), "ns_search_with_grad": (Z, C, TAU),
    "ns_loss": (Z, C, INDICES, TAU), "ns_codebook_grad": (Z, C, INDICES, DENOMINATORS, TAU), "code_usage": (INDICES, 30),
    "code_sums": (Z, INDICES, 30), "softmax_column_sums": (Z, C, TAU), "group_norm_silu": (IMAGE, *NORM),
}
"""Arguments of the operators that know their results' shapes, for tracing."""

DIFFERENTIABLE = {"ns_loss": (Z, leaf(C), INDICES, TAU),
                  "group_norm_silu": (leaf(IMAGE), leaf(ONES), leaf(ONES), 4, 1e-6, True)}

# AOT's check adds outputs up in place, which int64 indices do not take beside fp32.
WITH_INDICES = {"nearest_codes": (leaf(Z), leaf(C)), "ns_quantize": (leaf(Z), leaf(C), TAU)}

EAGER = {
    "bias_relu_": (IMAGE, ONES), "depth_to_space": (leaf(IMAGE),), "space_to_depth": (leaf(IMAGE),),
    "depth_to_space_bias": (leaf(IMAGE), leaf(ONES)), "space_to_depth_sums": (IMAGE,),
    "add_norm_silu": (leaf(IMAGE), leaf(OTHER), leaf(ONES), leaf(ONES), 4, 1e-6, True),
    "offset_norm_silu": (IMAGE, OTHER, None, None, None, *NORM, True),
    "offset_norm_silu_": (IMAGE, OTHER, None, *NORM), "residual_sum": (IMAGE, OTHER, ONES, 1),
    "image_patches": (IMAGE[:, :3], torch.float32),
    "nearest_codes_cosine": (Z, C),
    "seeded_values": (SEED, 1, 9, True), "seeded_rows": (SEED.repeat(4), 1, 9, False), "gumbel_values": (SEED, 0, 9),
    "numbered_seeds": (SEED.repeat(4, 1), SEED.repeat(3)),
    "cached_attention_inference": (half(2, 48), half(2, 2, 8, 8), half(2, 2, 8, 8), torch.tensor([3]), None, None, None, None,
                                   None, 1, 1e-5),
    "residual_norm_inference": (normal(2, 3, 8), half(2, 3, 8), None, None, None, None, None, False, 1e-5),
    "query_key_norm_inference_": (half(2, 24), 1e-5), "swiglu_inference": (half(2, 8), half(2, 8)),
    "draw_tokens_inference": (normal(8, 9), SEED.repeat(4), torch.tensor([2.0]), None, 0.5, None),
    "sample_unit_rows": (torch.nn.functional.normalize(C), torch.nn.functional.normalize(Z), SEED),
    "softmax_rows": (Z, SEED, 0), "softmax_rows_backward": (Z, SEED, 0, torch.tensor(1.0), Z, None),
    "cross_entropy_rows_": (normal(3, 5), torch.tensor([0, 4, 2]), None, True), "kept_bits": (normal(4, 16), 0.25),
    "add_rms_norm": (ROWS, BF16_ROWS, BITS, 0.25, ONES, 1e-5),
    "add_rms_norm_backward": (BF16_ROWS, ROWS, ROWS, ROWS[:, 0], ONES, BITS, 0.25, True),
    "swiglu": (ROWS, ROWS), "swiglu_backward_": (normal(4, 16), ROWS, ROWS),
    "turn_heads_": (normal(2, 3, 3, 2, 4), TURNS),
    "join_heads": (normal(2, 2, 3, 4), normal(2, 2, 3, 4), normal(2, 2, 3, 4), TURNS),
    "average_step": ([normal(3)], [normal(3, seed=1)], None, 0.9),
    "adam_step": ([normal(3)], [normal(3)], [normal(3)], [normal(3).abs()], [torch.tensor(1.0)], [], None, None, None, None,
                  [], 0.1, 0.9, 0.99, 1e-8, 0.0, 0.9),
}
"""Arguments of the operators that are called eagerly, by the trainer and by networks."""

ON_A_GPU = {"feature_distance"}
"""Has kernels for a GPU alone."""

BACKWARD = {"group_norm_silu_backward", "add_norm_silu_backward", "feature_distance_backward"}
"""Called by an autograd function above, which reaches them."""


@pytest.mark.parametrize("name", TRACED)
def test_traced(name):
    opcheck(getattr(OPS, name).default, TRACED[name])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_with_gradients(name):
    opcheck(getattr(OPS, name).default, DIFFERENTIABLE[name])


@pytest.mark.parametrize("name", WITH_INDICES)
def test_with_gradients_and_indices(name):
    opcheck(getattr(OPS, name).default, WITH_INDICES[name],
            test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.parametrize("name", EAGER)
def test_eager(name):
    opcheck(getattr(OPS, name).default, EAGER[name], test_utils=("test_schema", "test_autograd_registration"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    opcheck(OPS.feature_distance.default, (leaf(IMAGE.cuda()), OTHER.cuda(), ONES.cuda()),
            test_utils=("test_schema", "test_autograd_registration"))


@pytest.mark.parametrize("type", [torch.float32, torch.float64])
def test_operators_of_the_package(type):
    z, c = Z.to(type), C.to(type)
    ops = torch.ops.nsvq_package
    indices, _, _, denominators = ops.ns_search(z, c, TAU)
    opcheck(ops.nearest.default, (z, c, 3))
    opcheck(ops.ns_search.default, (z, c, TAU))
    opcheck(ops.ns_codebook_grad.default, (z, c, indices, denominators, TAU))


def test_every_operator_is_checked():
    names = {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("nsvq::")}
    assert names == TRACED.keys() | EAGER.keys() | ON_A_GPU | BACKWARD
    traced = {name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(f"nsvq::{name}", "Meta")}
    assert traced <= TRACED.keys() | BACKWARD
