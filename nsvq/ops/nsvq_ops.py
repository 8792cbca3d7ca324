"""The operators of nsvq in PyTorch, with descriptions.

    import nsvq_ops                         # loads libnsvq_ops.so, which lies beside this file
    help(torch.ops.nsvq.ns_quantize)
    indices, distances, loss = torch.ops.nsvq.ns_quantize(latents, codebook, 0.35)

`nsvq_ops.load(PATH)` loads a library that lies elsewhere. docs/kernels.md has a layer that trains with them.
"""

import pathlib

import torch

CODES = """
    latents [N, d] and codebook [K, d]: fp32, bf16 or fp16 (on a CPU fp64 too), contiguous or not, on one device; N may
    be 0, d is at most 65,536 on a GPU. The N x K matrix is never made. A value that is not finite is an error on a CPU;
    on a GPU such a latent gets index -1 and distance NaN, and all latents do if a code is not finite."""

DESCRIPTIONS = {
    "nearest_codes": """nearest_codes(latents, codebook) -> indices, distances

    The nearest code of each latent: indices [N] int64 and squared distances [N] fp32. Exact: the least distance by fp64
    differences of the given values, the lowest index on ties. Distances have gradients for both inputs.
""" + CODES,
    "nearest_codes_cosine": """nearest_codes_cosine(latents, codebook) -> indices, distances

    nearest_codes among rows scaled to length 1 in fp32: the code of the least angle, and 2 - 2 cos. Distances have
    gradients for both inputs.
""" + CODES,
    "ns_quantize": """ns_quantize(latents, codebook, tau) -> indices, distances, loss

    nearest_codes and the NS loss in one pass. The loss, a scalar, is
    1 / (N d) sum_i sum_{j != q_i} p_ij |z_i - c_j|^2, with q_i the nearest code and p_i the detached softmax of
    -|z_i - c_j|^2 / tau over all codes. Its gradient reaches the codebook alone; distances have gradients for both
    inputs. Their mean over N d is codebook and commitment loss in one; a commitment weight beta is
    ns_quantize(z.detach().lerp(z, beta), codebook, tau). There is no second derivative.
""" + CODES,
    "ns_loss": """ns_loss(latents, codebook, indices, tau) -> loss

    The NS loss of ns_quantize for winners [N] int64 that are known already. Its gradient reaches the codebook alone.
""" + CODES,
    "ns_search": """ns_search(latents, codebook, tau) -> indices, distances, losses, denominators

    What ns_quantize is made of, without gradients: for each latent its nearest code, squared distance, loss
    sum_{j != q} p_j |z - c_j|^2, and the denominator of its softmax relative to the winner.
""" + CODES,
    "ns_search_with_grad": """ns_search_with_grad(latents, codebook, tau) -> indices, distances, losses, denominators, grad

    ns_search and ns_codebook_grad in one pass, without gradients.
""" + CODES,
    "ns_codebook_grad": """ns_codebook_grad(latents, codebook, indices, denominators, tau) -> grad

    [K, d] fp32: for each code j, sum_i p_ij (c_j - z_i) over the latents whose nearest code is not j. Times 2 / (N d) it
    is the gradient of the NS loss for the codebook. Indices and denominators are those of ns_search.
""" + CODES,
    "code_usage": """code_usage(indices, codes) -> counts

    How often each of `codes` codes occurs in indices (int64, any shape): [codes] int64, without gradients. On a GPU the
    host does not wait, unlike for bincount. An index outside [0, codes) is an error on a CPU and stops the kernel on a
    GPU.""",
    "code_sums": """code_sums(latents, indices, codes) -> sums

    The sum of the latents [N, d] of each code: [codes, d] fp32, zero for a code that no index names; without gradients.
    Its bits differ neither between runs nor with the number of threads.""",
    "softmax_column_sums": """softmax_column_sums(latents, codebook, tau) -> sums

    How much weight each code gets: sum_i p_ij [K] fp32, p_i the softmax of -|z_i - c_j|^2 / tau; without gradients.
""" + CODES,
    "softmax_rows": """softmax_rows(logits, seed, first) -> indices, entropy

    For each row [n] of logits [n, K]: the index of the largest of logits and Gumbel noise, and the entropy of
    softmax(logits) in nats. The noise depends on the seed (a scalar int64 tensor; None: no noise) and on a number's index
    among all rows, of which these begin at number `first`.""",
    "softmax_rows_backward": """softmax_rows_backward(logits, seed, first, temperature, pulls, weight) -> gradient

    The gradient for logits [n, K] of sum_ij p_ij pulls_ij + weight sum_i H_i, p = softmax((logits + noise) / temperature)
    and H the entropies. Either term may be None.""",
    "cross_entropy_rows_": """cross_entropy_rows_(logits, targets, factors, gradient) -> losses

    Cross-entropy [n] of the classes targets [n] int64 by logits [n, K], in fp32; without gradients. With `gradient` the
    logits become the gradient of the losses by them, each row's times its factor [n] (None: 1). On a GPU logits are bf16.""",
    "kept_bits": """kept_bits(values, share) -> bits

    What dropout keeps of values [..., 8n]: uint8 [..., n] whose bits, the lowest first, are set for values that it keeps.
    The share is rounded to a multiple of 2^-16; bits are drawn by torch's generator.""",
    "add_rms_norm": """add_rms_norm(x, values, kept, dropped, weight, eps) -> sum, output, rstd

    x + the kept values / (1 - dropped), its RMSNorm times weight in bf16, and the factors that normalise rows; x [...,
    width] and weight [width] fp32, values bf16 or None (the sum is empty then), kept of kept_bits or None.
    Without gradients.""",
    "add_rms_norm_backward": """add_rms_norm_backward(gradient, sum_gradient, sum, rstd, weight, kept, dropped, values) -> gradients

    The gradients of add_rms_norm for x, values (empty unless `values`) and weight.""",
    "swiglu": """swiglu(a, b) -> product

    silu(a) * b, computed in fp32 and rounded once; without gradients. On a GPU both are bf16.""",
    "swiglu_backward_": """swiglu_backward_(gradient, a, b) -> gradients

    The gradients of swiglu for a and b. `gradient` becomes the product.""",
    "turn_heads_": """turn_heads_(qkv, rotation)

    Turns queries and keys of qkv [B, T, 3, heads, head width] in place, neighbouring channels as pairs, by rotation [T,
    head width / 2] complex64; without gradients. On a GPU qkv is bf16.""",
    "join_heads": """join_heads(query, key, value, rotation) -> qkv

    The way back for gradients: [B, heads, T, head width] each to [B, T, 3, heads, head width], queries and keys turned
    back.""",
    "group_norm_silu": """group_norm_silu(input, weight, bias, groups, eps, silu) -> output, mean, rstd

    GroupNorm, then SiLU unless `silu` is false, of input [N, C, H, W] in fp32, bf16 or fp16, with statistics in fp32. The
    output is channels-last; input of another layout is copied first. Gradients of the output for the first three.""",
    "group_norm_silu_backward": """group_norm_silu_backward(gradient, input, weight, bias, mean, rstd, silu) -> gradients

    The gradients of group_norm_silu for input, weight and bias.""",
    "add_norm_silu": """add_norm_silu(a, b, weight, bias, groups, eps, silu) -> sum, output, mean, rstd

    a + b, and group_norm_silu of it: the end of a residual block and the norm after it in one pass. Gradients of sum and
    output for a, b, weight and bias.""",
    "add_norm_silu_backward": """add_norm_silu_backward(sum_gradient, gradient, sum, weight, bias, mean, rstd, silu) -> gradients

    The gradients of add_norm_silu for the addends, weight and bias.""",
    "offset_norm_silu": """offset_norm_silu(a, b, shift, offset, skip, weight, bias, groups, eps, silu, keep_sum) -> sum, output

    group_norm_silu of cat(a + b + shift + offset, skip), for inference: b as a, shift [N, C], offset [C] and skip
    [N, D, H, W] may be None. Without gradients. The sum is empty unless keep_sum.""",
    "offset_norm_silu_": """offset_norm_silu_(a, b, offset, weight, bias, groups, eps, silu) -> output

    group_norm_silu of a + b + offset, which is written over b [N, C, H, W], channels-last; offset [C] may be None. For
    inference.""",
    "residual_sum": """residual_sum(x, h, offset, form) -> sum

    x + offset + h of activations [N, C, H, W], channels-last; h and offset [C] may be None. form 0: the sum; 1: with a row
    and a column of zeros after the last; 2: with each pixel as four. For inference.""",
    "image_patches": """image_patches(images, type) -> rows

    The pixels that a 3x3 convolution with padding sees: images [N, C, H, W] with C at most 3 to [N * H * W, 32] of this
    dtype; number c * 9 + dy * 3 + dx is channel c at offset (dy - 1, dx - 1), zero outside. For inference.""",
    "bias_relu_": """bias_relu_(x, bias)

    relu(x + bias), written over x [N, C, H, W], channels-last; bias [C] by channel.""",
    "depth_to_space": """depth_to_space(x) -> y

    [B, 4C, H, W] to [B, C, 2H, 2W]: channel (dy * 2 + dx) * C + c becomes channel c at offset (dy, dx), unlike
    pixel_shuffle. With gradients.""",
    "depth_to_space_bias": """depth_to_space_bias(x, bias) -> y

    depth_to_space(x + bias), with bias [4C] by channel, in one pass. With gradients.""",
    "space_to_depth": """space_to_depth(x) -> y

    The way back from depth_to_space: [B, C, 2H, 2W] to [B, 4C, H, W]. With gradients.""",
    "space_to_depth_sums": """space_to_depth_sums(x) -> y, sums

    space_to_depth, and the sums [4C] of its channels: the gradients of depth_to_space_bias.""",
    "feature_distance": """feature_distance(ours, theirs, weights) -> distances

    LPIPS of one pair of activations [B, C, H, W]: channels scaled to unit length at each position, squared differences
    weighted by weights [C], summed over channels, averaged over positions: [B]. Gradients for `ours` alone. On a GPU,
    channels-last, in fp32, bf16 or fp16.""",
    "feature_distance_backward": """feature_distance_backward(gradient, ours, theirs, weights) -> gradient

    The gradient of feature_distance for `ours`.""",
    "seeded_values": """seeded_values(seed, draw, count, normal) -> values

    Numbers [count] in fp32, standard normal or uniform in [0, 1). A number depends on the seed (a scalar int64 tensor),
    the draw and its index alone.""",
    "seeded_rows": """seeded_rows(seeds, draw, count, normal) -> values

    Numbers [rows, count] of seeds [rows]: row i is seeded_values of seed i.""",
    "numbered_seeds": """numbered_seeds(seeds, numbers) -> seeds

    New seeds of the shape to which both, int64, broadcast: a hash of the two.""",
    "cached_attention_inference": """cached_attention_inference(qkv, keys, values, place, rotation, ...) -> mixed

    Attention of one new token a sequence, without gradients: qkv [B, 3 heads D] bf16 holds its query, key and value.
    Queries and keys are normalised (norm 1 RMS, 2 LayerNorm) and turned by rotation [D / 2] complex; key and value are
    written at `place` of keys and values [B, heads, positions, D] bf16, and the query attends up to it: [B, heads D].""",
    "residual_norm_inference": """residual_norm_inference(x, branch, gate, shift, scale, ...) -> sum, normed

    x + gate * branch in fp32, empty without a branch, and its RMS norm or LayerNorm, times 1 + scale, plus shift, in
    bf16. x is [B, T, C] fp32, the others [B, T or 1, C]; without gradients.""",
    "query_key_norm_inference_": """query_key_norm_inference_(qkv, eps)

    RMS norms of the first two thirds of each row of qkv [..., 3 C] bf16, in place, without gradients.""",
    "swiglu_inference": """swiglu_inference(gate, up) -> y

    silu(gate) * up in bf16, rounded once, without gradients.""",
    "draw_tokens_inference": """draw_tokens_inference(logits, seeds, weight, factor, temperature, wanted) -> tokens

    Draws [N] from the softmax of logits [N, K] over the temperature by Gumbel noise of each row's seed; with a weight
    logits are [2N, K], and the draw is from u + weight (c - u), c the upper half. Rows that are not wanted give 0.""",
    "gumbel_values": """gumbel_values(seed, first, count) -> values

    Numbers [count] in fp32 of a standard Gumbel distribution, those of the indices from `first` on.""",
    "sample_unit_rows": """sample_unit_rows(codes, latents, seed) -> rows

    For each code [K, d] the number of one of the latents [N, d], with probability proportional to exp(their product),
    both of unit length: [K] int64. By rejection, without the K x N matrix.""",
    "adam_step": """adam_step(parameters, gradients, moments1, moments2, steps, averages, ...)

    One step of Adam (AdamW with weight_decay) for all tensors of the lists, in place, then
    average <- decay * average + (1 - decay) * parameter. Nothing changes where `bad`, a boolean tensor or None, is true.
    The optional tensors are factors that vary from step to step.""",
    "average_step": """average_step(parameters, averages, bad, decay)

    average <- decay * average + (1 - decay) * parameter, in place. Nothing changes where `bad`, a boolean tensor or None,
    is true.""",
}


def document():
    """Gives each operator of the loaded library its description as `__doc__`, which help() shows."""
    for name, text in DESCRIPTIONS.items():
        getattr(torch.ops.nsvq, name).__doc__ = text


def load(library):
    """Loads libnsvq_ops.so. It and this Python need the same torch."""
    torch.ops.load_library(str(library))
    document()


if not __package__ and (pathlib.Path(__file__).parent / "libnsvq_ops.so").exists():  # nsvq._library loads the package's
    load(pathlib.Path(__file__).parent / "libnsvq_ops.so")
