#pragma once

#include <ATen/core/Tensor.h>

namespace nsvq {

// Checks that operators on latents and a codebook share. They throw c10::Error, naming `op`.

/// Throws unless latents are [N, d] and the codebook is [K, d], on one device.
void check_code_shapes(const char* op, const at::Tensor& latents, const at::Tensor& codebook);

/// check_code_shapes; throws too if the codebook is empty.
void check_codes(const char* op, const at::Tensor& latents, const at::Tensor& codebook);

/// Throws unless indices are [N] int64 for latents [N, d].
void check_indices(const char* op, const at::Tensor& indices, const at::Tensor& latents);

/// Throws unless tau is positive.
void check_tau(const char* op, double tau);

}  // namespace nsvq
