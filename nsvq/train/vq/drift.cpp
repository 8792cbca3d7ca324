#include "nsvq/train/vq/drift.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/ops/code_statistics/effective_neighbours.h"
#include "nsvq/ops/code_statistics/spectrum.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/replacement/kmeans.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/vq/state_json.h"

namespace nsvq {

namespace {

/// Number of latents whose effective neighbours are computed: all latents times all codes would
/// cost several times as much as quantizing the images.
constexpr int64_t kMostForNeighbours = 4096;

/// Number of images whose straight-through gap is measured: one decoder pass each.
constexpr int64_t kMostForGap = 8;

/// Guard: encoder and decoder compute in fp32, and the decoder keeps its activations. Recomputed
/// levels add to their parameters' gradients in any backward pass.
class PlainNetworks {
 public:
  explicit PlainNetworks(Tokenizer& model)
      : model_(model),
        precision_(std::exchange(model->precision, Precision::fp32)),
        recompute_(std::exchange(model->decoder->recompute, false)) {}
  ~PlainNetworks() {
    model_->precision = precision_;
    model_->decoder->recompute = recompute_;
  }
  PlainNetworks(const PlainNetworks&) = delete;
  PlainNetworks& operator=(const PlainNetworks&) = delete;

 private:
  Tokenizer& model_;
  Precision precision_;
  bool recompute_;
  Tf32Guard exact_{Tf32Work::convolutions, false};
};

double root_mean_square(const torch::Tensor& values) {
  return values.to(at::kDouble).square().mean().sqrt().item<double>();
}

/// What the model makes of images.
struct Assigned {
  torch::Tensor latents;        // [n, d, h, w]
  torch::Tensor compared;       // these as codes are compared with them
  torch::Tensor indices;        // [n, h, w], empty for a model without tokens
  torch::Tensor squared_error;  // of `compared` against the codes, summed
};

/// Nullopt if latents are non-finite: they have no nearest code.
std::optional<Assigned> assign_images(Tokenizer& model, const torch::Tensor& images,
                                      int64_t batch_size) {
  std::vector<torch::Tensor> latent_batches, compared_batches, index_batches, error_batches;
  for (const auto& batch : images.split(batch_size)) {
    const auto latents = model->to_latents(batch);
    if (!at::isfinite(latents).all().item<bool>()) return std::nullopt;
    const auto assigned = model->quantizer->assign(latents);
    const auto compared = model->quantizer->compared(latents);
    const auto error = compared - assigned.latents;
    latent_batches.push_back(latents);
    compared_batches.push_back(compared);
    index_batches.push_back(assigned.indices);
    error_batches.push_back(error.to(at::kDouble).square().sum());
  }
  return Assigned{at::cat(latent_batches).contiguous(), at::cat(compared_batches).contiguous(),
                  at::cat(index_batches), at::stack(error_batches).sum()};
}

}  // namespace

torch::Tensor spread_rows(const torch::Tensor& rows, int64_t most) {
  const int64_t n = rows.size(0);
  if (n <= most) return rows;
  const int64_t stride = (n + most - 1) / most;
  return rows.slice(0, 0, n, stride | 1);
}

DriftMeter::DriftMeter(torch::Tensor images, int64_t batch_size, double tau)
    : images_(std::move(images)), batch_size_(batch_size), tau_(tau) {
  TORCH_CHECK(images_.dim() == 4 && images_.size(0) > 0,
              "drift: images must be [n, 3, H, W] with n > 0, but they are ", images_.sizes());
  TORCH_CHECK(batch_size > 0, "drift: batch_size must be positive, but it is ", batch_size);
}

double DriftMeter::commitment(Tokenizer& model) const {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  int64_t count = 0;
  for (const auto& images : images_.split(batch_size_)) {
    const auto latents = model->to_latents(images);
    if (!at::isfinite(latents).all().item<bool>()) return NAN;
    const auto error =
        model->quantizer->compared(latents) - model->quantizer->assign(latents).latents;
    sum += error.to(at::kDouble).square().sum().item<double>();
    count += latents.numel();
  }
  return sum / static_cast<double>(count);
}

std::map<std::string, double> DriftMeter::measure(Tokenizer& model) {
  const torch::NoGradGuard no_grad;
  const auto assigned = assign_images(model, images_, batch_size_);
  spectra_.clear();
  if (!assigned) return {{"latent_norm", NAN}};  // the trainer decides how to react
  const auto& [latents, compared, indices, squared_error] = *assigned;
  const auto rows = flatten_latents(compared);
  const bool tokens = indices.numel() > 0;

  std::map<std::string, double> values;
  const auto add_relative = [&](const std::string& name, double value, const torch::Tensor& to) {
    values[name] = value;
    values["relative_" + name] = value / root_mean_square(to);
  };
  const auto add_directions = [&](const std::string& name, const torch::Tensor& vectors) {
    auto directions = directions_of(vectors);
    values[name + "_participation"] = directions.participation;
    spectra_[name + "_spectrum"] = std::move(directions.shares);
  };
  if (latents_.defined() && latents_.sizes() == latents.sizes() &&
      indices_.sizes() == indices.sizes()) {
    add_relative("drift", root_mean_square(latents - latents_), latents);
    if (tokens) values["churn"] = indices.ne(indices_).to(at::kDouble).mean().item<double>();
  }
  values["latent_norm"] =
      at::linalg_vector_norm(flatten_latents(latents), 2, 1).to(at::kDouble).mean().item<double>();
  if (tokens) {
    add_relative("quantization_error", (squared_error / latents.numel()).sqrt().item<double>(),
                 compared);
  }
  add_directions("latents", rows);
  if (const auto codes = model->quantizer->code_vectors(); codes.defined()) {
    values["centroid_distance"] = centroid_distance(rows, indices.flatten(), codes);
    values["neighbours"] = effective_neighbours(spread_rows(rows, kMostForNeighbours), codes, tau_)
                               .to(at::kDouble)
                               .mean()
                               .item<double>();
    add_directions("codes", codes);
  }
  latents_ = latents;
  indices_ = indices;
  return values;
}

TensorMap DriftMeter::state() const {
  if (!latents_.defined()) return {};
  return {{"indices", indices_}, {"latents", latents_}};
}

void DriftMeter::load(const TensorMap& state, const std::string& from) {
  const auto part = [&](const char* name) {
    if (state.empty()) return torch::Tensor();
    const auto found = state.find(name);
    if (found == state.end()) {
      throw UserError("{}: training.safetensors: drift.{} is missing; is the checkpoint damaged?",
                      from, name);
    }
    return found->second.to(images_.device());
  };
  const auto indices = part("indices"), latents = part("latents");
  const auto require = [&](bool sound, const char* name, const torch::Tensor& tensor) {
    if (sound) return;
    throw UserError(
        "{}: training.safetensors: drift.{} is of type {} and shape {}, which no "
        "measurement has; is the checkpoint damaged?",
        from, name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
  };
  if (latents.defined()) {
    require(latents.dim() == 4 && latents.is_floating_point(), "latents", latents);
    const bool of_latents = indices.dim() == 3 && indices.size(0) == latents.size(0);
    require(indices.numel() == 0 || (of_latents && indices.scalar_type() == at::kLong), "indices",
            indices);
  }
  latents_ = latents;
  indices_ = indices;
}

std::map<std::string, double> straight_through_gap(Tokenizer& model, const Objective& objective,
                                                   const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const PlainNetworks plain(model);
  const auto gradient_at = [&](const torch::Tensor& vectors, const torch::Tensor& image) {
    const at::AutoGradMode with_gradients(true);
    const auto leaf = vectors.detach().clone().requires_grad_();
    Scalars unlogged;
    const auto loss = objective.compare(image, model->to_images(leaf), unlogged);
    // Not backward(): nothing is added to any parameter's gradient.
    return torch::autograd::grad({loss}, {leaf}).front().to(at::kDouble).flatten();
  };
  std::vector<torch::Tensor> of_latents, of_codes;
  for (const auto& image : images.split(1)) {  // the terms are means over images
    const auto latents = model->to_latents(image);
    if (!at::isfinite(latents).all().item<bool>()) return {{"ste_gap", NAN}, {"ste_cosine", NAN}};
    of_latents.push_back(gradient_at(latents, image));
    of_codes.push_back(gradient_at(model->quantizer->assign(latents).latents, image));
  }
  const auto at_latents = at::cat(of_latents), at_codes = at::cat(of_codes);
  const auto norm = at_latents.norm();
  return {{"ste_gap", ((at_codes - at_latents).norm() / norm).item<double>()},
          {"ste_cosine", (at_latents.dot(at_codes) / (norm * at_codes.norm())).item<double>()}};
}

DriftMonitor::DriftMonitor(const TokenizerConfig& config, const Validation& validation,
                           Tokenizer& model, const Objective& objective, c10::Device device)
    : model_(model), objective_(objective), every_steps_(config.drift.every_steps) {
  if (config.drift.images == 0) return;
  const auto images = validation.first_images(config.drift.images).to(device);
  meter_.emplace(images, config.train.batch_size, config.quantizer.tau);
  if (config.drift.ste_gap && model->quantizer->codes() > 0) {
    gap_images_ = images.slice(0, 0, kMostForGap);
  }
}

void DriftMonitor::end_epoch(Journal& journal, EpochLine& /*line*/) {
  if (every_steps_ == 0) measure(journal);
}

void DriftMonitor::measure(Journal& journal) {
  if (!meter_) return;
  values_ = meter_->measure(model_);
  if (gap_images_.defined() && !std::isnan(values_.at("latent_norm"))) {
    values_.merge(straight_through_gap(model_, objective_, gap_images_));
  }
  journal.record("drift", values_, meter_->spectra());
}

double DriftMonitor::commitment(Group& group) const {
  const auto leading = at::full({}, meter_->commitment(model_), at::kDouble);
  group.broadcast({leading});
  return leading.item<double>();
}

double DriftMonitor::last(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? NAN : found->second;
}

void DriftMonitor::load(const TensorMap& state, const std::string& from) {
  if (meter_) meter_->load(state, from);
}

nlohmann::json DriftMonitor::to_json() const { return {{"drift", values_}}; }

void DriftMonitor::from_json(const nlohmann::json& all) {
  values_.clear();
  for (const auto& [name, value] : all.at("drift").items()) values_[name] = number_or_nan(value);
}

}  // namespace nsvq
