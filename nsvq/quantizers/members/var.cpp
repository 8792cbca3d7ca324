#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

#include <array>
#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

constexpr auto kUntrained =
    "has tokens of several scales, which nsvq does not train: its models come from `nsvq import`";

/// The quantizer of VAR's tokenizer (Tian et al., 2024): residuals at growing scales. At each scale
/// what is left of the latents is averaged to the scale's grid, the nearest codes are enlarged
/// (bicubic) and smoothed, phi(x) = x / 2 + conv(x) / 2, and subtracted. Latents are the sum of all
/// scales. Four phi are shared by the scales.
class ScaleQuantizer : public Quantizer {
 public:
  ScaleQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codebook_.size(0); }
  std::vector<TokenGrid> grids(int64_t height, int64_t width) const override;
  torch::Tensor code_vectors() override { return codebook_.detach(); }

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  torch::Tensor part_of_scale(size_t scale, const torch::Tensor& indices);

  QuantizerConfig config_;
  std::vector<int64_t> sides_;  ///< of each scale's grid
  torch::nn::ModuleList phi_;   ///< convolutions
  torch::Tensor codebook_;      ///< [K, d]
};

constexpr int64_t kPhis = 4;

/// Which phi is that of a scale: the nearest to its position between the first and the last. Ticks
/// are numpy's linspace(1/12, 11/12, 4) to the last bit, which decides where two are as near:
/// scales 2 and 7 of 10.
size_t phi_of(size_t scale, size_t scales) {
  constexpr std::array<double, kPhis> ticks = {0.08333333333333333, 0.36111111111111105,
                                               0.6388888888888888, 0.9166666666666666};
  const double position = static_cast<double>(scale) / static_cast<double>(scales - 1);
  size_t nearest = 0;
  for (size_t i = 1; i < ticks.size(); ++i) {
    if (std::abs(ticks[i] - position) < std::abs(ticks[nearest] - position)) nearest = i;
  }
  return nearest;
}

std::vector<Option> var_options(QuantizerConfig& config) {
  return {{"quantizer.var.scales", &config.of<VarConfig>().scales,
           "var: sides of the grids of tokens; the last is that of the latents",
           Range::list(2, 64, Range::between(1, 4096))}};
}

}  // namespace

ScaleQuantizer::ScaleQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : config_(config),
      sides_(config.of<VarConfig>().scales),
      phi_(register_module("phi", torch::nn::ModuleList())),
      codebook_(register_buffer("codebook", initial_codebook(config, latent_dim))) {
  constexpr int64_t kernel = 3;
  for (int64_t i = 0; i < kPhis; ++i) {
    phi_->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(latent_dim, latent_dim, kernel).padding(kernel / 2)));
  }
}

std::vector<TokenGrid> ScaleQuantizer::grids(int64_t height, int64_t width) const {
  if (height != sides_.back() || width != sides_.back()) {
    throw UserError(
        "quantizer.var.scales end with grids of {0}x{0}, so the model takes images of one size; "
        "of this one the latents are {1}x{2}",
        sides_.back(), height, width);
  }
  std::vector<TokenGrid> grids;
  for (const int64_t side : sides_) grids.push_back({side, side});
  return grids;
}

/// What a scale adds to latents, by its indices [B, h, w].
torch::Tensor ScaleQuantizer::part_of_scale(size_t scale, const torch::Tensor& indices) {
  auto codes = look_up(codebook_, indices);
  if (scale + 1 < sides_.size()) {
    codes = at::upsample_bicubic2d(codes, {sides_.back(), sides_.back()}, /*align_corners=*/false);
  }
  auto& phi = phi_->at<torch::nn::Conv2dImpl>(phi_of(scale, sides_.size()));
  return (codes + phi.forward(codes)) / 2;
}

torch::Tensor ScaleQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto grids = this->grids(latents.size(2), latents.size(3));
  auto rest = latents;
  std::vector<torch::Tensor> found;
  for (size_t i = 0; i < grids.size(); ++i) {
    const auto small = at::adaptive_avg_pool2d(rest, {grids[i].height, grids[i].width});
    const auto indices = to_grid(
        nearest_indices(flatten_latents(small), codebook_, config_, NonFinite::mark), small);
    found.push_back(indices.flatten(1));
    // What is not finite stays so, and is marked at the last scale.
    if (i + 1 < grids.size()) rest = rest - part_of_scale(i, indices.clamp_min(0));
  }
  return at::cat(found, 1);
}

torch::Tensor ScaleQuantizer::decode(const torch::Tensor& indices) {
  const auto grids = this->grids(sides_.back(), sides_.back());
  TORCH_CHECK(indices.dim() == 2 && indices.size(1) == tokens_in(grids),
              "quantizer: indices must be [B, ", tokens_in(grids), "], but they are ",
              indices.sizes());
  torch::Tensor sum;
  int64_t first = 0;
  for (size_t i = 0; i < grids.size(); ++i) {
    const int64_t end = first + grids[i].height * grids[i].width;
    const auto of_scale =
        indices.slice(1, first, end).reshape({-1, grids[i].height, grids[i].width});
    const auto part = part_of_scale(i, of_scale);
    sum = i == 0 ? part : sum + part;
    first = end;
  }
  return sum;
}

Quantized ScaleQuantizer::quantize_wide(const torch::Tensor& /*latents*/,
                                        const QuantizerStep& /*step*/) {
  throw UserError("quantizer.type: var {}", kUntrained);
}

QuantizerKind var_kind() {
  return {.name = "var",
          .summary = "residuals at several scales, of VAR's tokenizer; import alone",
          .make = make_member<ScaleQuantizer>,
          .options = var_options,
          .rotates = false,
          .refuses_norms = "compares residuals, in which lengths count",
          .codebook = false,
          .untrained = kUntrained,
          .weighs_commitment = false,
          .small = {"quantizer.var.scales=[1, 2, 5]"},
          .straight_through = false};
}

}  // namespace nsvq
