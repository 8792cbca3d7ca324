#include "nsvq/quantizers/codebook.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "nsvq/ops/code_statistics/code_sums.h"
#include "nsvq/quantizers/replacement/kmeans.h"

namespace nsvq {

namespace {

/// at::embedding whose gradient on a GPU is summed in the same order every time and without
/// waiting.
class LookUp : public torch::autograd::Function<LookUp> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& codebook, const torch::Tensor& indices) {
    context->save_for_backward({indices});
    context->saved_data["codes"] = codebook.size(0);
    return at::embedding(codebook, indices);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto indices = context->get_saved_variables()[0].flatten();
    const auto rows = gradients[0].reshape({indices.size(0), -1});
    return {code_sums(rows, indices, context->saved_data["codes"].toInt()), {}};
  }
};

}  // namespace

torch::Tensor initial_codebook(const std::string& init, int64_t codes, int64_t dim, double scale) {
  if (init == "uniform") return at::rand({codes, dim}).mul_(2).sub_(1).div_(codes);
  if (init == "normal") return at::randn({codes, dim}).mul_(scale);
  return at::randn({codes, dim}).mul_(1 / std::sqrt(static_cast<double>(dim)));
}

torch::Tensor initial_codebook(const QuantizerConfig& config, int64_t dim) {
  return initial_codebook(config.init, config.codes, dim, config.init_scale);
}

void sample_codes(torch::Tensor codebook, const torch::Tensor& latents, uint64_t seed) {
  TORCH_CHECK(latents.dim() == 2 && latents.size(0) > 0 && latents.size(1) == codebook.size(1),
              "sample_codes: latents must be [N, ", codebook.size(1), "] with N > 0, but they are ",
              latents.sizes());
  const torch::NoGradGuard no_grad;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const int64_t codes = codebook.size(0), n = latents.size(0);
  const auto order = at::randperm(n, generator);
  const auto rows = order.index({at::arange(codes).remainder(n)}).to(latents.device());
  auto drawn = latents.index_select(0, rows);
  if (codes > n) {
    const auto noise = at::randn(drawn.sizes(), generator).to(drawn.device());
    drawn = drawn + noise * (1e-3 * latents.std().item<double>());
  }
  codebook.copy_(drawn);
}

bool starts_from_data(const std::string& init) { return init == "data" || init == "kmeans"; }

int64_t latents_for_codes(const std::string& init, int64_t codes) {
  constexpr int64_t of_a_cluster = 8;
  return init == "kmeans" ? of_a_cluster * codes : codes;
}

void codes_from_data(torch::Tensor codebook, const torch::Tensor& latents, const std::string& init,
                     uint64_t seed) {
  if (init != "kmeans") return sample_codes(codebook, latents, seed);
  const torch::NoGradGuard no_grad;
  codebook.copy_(kmeans(latents, codebook.size(0), kInitialIterations, seed));
}

torch::Tensor flatten_latents(const torch::Tensor& latents) {
  TORCH_CHECK(latents.dim() == 4, "quantizer: latents must be [B, d, h, w], but they are ",
              latents.sizes());
  return latents.permute({0, 2, 3, 1}).reshape({-1, latents.size(1)});
}

torch::Tensor to_grid(const torch::Tensor& indices, const torch::Tensor& latents) {
  return indices.view({latents.size(0), latents.size(2), latents.size(3)});
}

torch::Tensor to_nchw(const torch::Tensor& rows, const torch::Tensor& latents) {
  return rows.view({latents.size(0), latents.size(2), latents.size(3), rows.size(1)})
      .permute({0, 3, 1, 2});
}

torch::Tensor codes_of(const torch::Tensor& codebook, const torch::Tensor& indices) {
  const bool on_gpu = codebook.is_cuda() && codebook.scalar_type() == at::kFloat;
  return on_gpu ? LookUp::apply(codebook, indices) : at::embedding(codebook, indices);
}

torch::Tensor look_up(const torch::Tensor& codebook, const torch::Tensor& indices) {
  TORCH_CHECK(indices.dim() == 3, "quantizer: indices must be [B, h, w], but they are ",
              indices.sizes());
  return codes_of(codebook, indices).permute({0, 3, 1, 2});
}

}  // namespace nsvq
