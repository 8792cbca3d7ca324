#include "nsvq/ops/images/image_patches.h"

#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/layout.h"

namespace nsvq {

namespace {

torch::Tensor image_patches_cpu(const torch::Tensor& images, at::ScalarType type) {
  check_patches(images, type);
  return image_patches_reference(images, type);
}

}  // namespace

void check_patches(const torch::Tensor& images, at::ScalarType type) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) <= kMostPatchChannels && has_kernels_type(images),
              "image_patches: images must be [N, C, H, W] with C at most ", kMostPatchChannels,
              " in fp32, bf16 or fp16, but they are ", images.sizes(), " in ",
              images.scalar_type());
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf,
              "image_patches: makes fp32, bf16 or fp16, not ", type);
}

torch::Tensor image_patches_reference(const torch::Tensor& images, at::ScalarType type) {
  const int64_t n = images.size(0), h = images.size(2), w = images.size(3);
  const int64_t taps = 9 * images.size(1);
  const auto rows = at::empty({n * h * w, kPatchNumbers}, images.options().dtype(type));
  rows.zero_();
  if (rows.numel() == 0 || taps == 0) return rows;
  const auto columns = at::im2col(images.to(at::kFloat), {3, 3}, {1, 1}, {1, 1}, {1, 1});
  rows.narrow(1, 0, taps).copy_(columns.transpose(1, 2).reshape({n * h * w, taps}));
  return rows;
}

torch::Tensor image_patches(const torch::Tensor& images, at::ScalarType type) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "image_patches: has no gradient");
  using Operator = torch::Tensor(const torch::Tensor&, at::ScalarType);
  static const auto op = operator_named<Operator>("nsvq::image_patches");
  return call_below_autograd(op, images, type);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("image_patches(Tensor images, ScalarType type) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("image_patches", image_patches_cpu); }

}  // namespace nsvq
