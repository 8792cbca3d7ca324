#include "nsvq/tokenizer/inference_session.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/nn/layers.h"
#include "nsvq/recipe/loader_options.h"

namespace nsvq {

namespace {

TorchSettings inference_settings(const TokenizerConfig& config, c10::Device device) {
  return {.threads = config.threads,
          .deterministic = config.train.deterministic,
          .tf32_convolutions = precision_on(config, device) != Precision::fp32,
          .inference = true};
}

}  // namespace

InferenceSession::InferenceSession(const std::filesystem::path& model, const std::string& device)
    : InferenceSession(load_model_for_inference(model), choose_device(device)) {}

InferenceSession::InferenceSession(LoadedModel model, c10::Device device)
    : model_(std::move(model)), device_(device), flags_(inference_settings(model_.config, device)) {
  move_to_device(model_.tokenizer, model_.config, device_);
#if defined(__aarch64__)
  // oneDNN works on channels-last memory and would reorder weights that are not.
  make_channels_last(*model_.tokenizer);
#endif
}

torch::Tensor InferenceSession::encode(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->encode(images.to(device_));
}

torch::Tensor InferenceSession::decode(const torch::Tensor& indices) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->decode(indices.to(device_));
}

torch::Tensor InferenceSession::reconstruct(const torch::Tensor& images) {
  return model_.tokenizer->reconstruct(images.to(device_)).images;
}

void InferenceSession::require_tokens() const {
  if (codes() > 0) return;
  throw UserError(
      "{}: quantizer.type is {}, a continuous autoencoder without tokens and codebook; name a "
      "model with another quantizer",
      model_.file.empty() ? "the recipe" : model_.file.string(), model_.config.quantizer.type);
}

LoaderOptions InferenceSession::loader_options() const {
  return inference_loader_options(model_.config, device_);
}

int64_t InferenceSession::batch_size(const TransformOptions& transform) const {
  const auto& config = model_.config;
  if (device_.is_cpu()) return config.train.batch_size;
  const auto precision = model_.tokenizer->precision;
  const bool half = precision == Precision::bf16 || precision == Precision::fp16;
  const int64_t image_bytes = int64_t{transform.output_height()} * transform.output_width() *
                                  config.model.width * config.model.multipliers.front() *
                                  (half ? 2 : 4) >>
                              (2 * config.model.haar);
  constexpr int64_t activation_bytes = int64_t{1} << 29, most = 1024;
  const int64_t room = std::clamp<int64_t>(activation_bytes / image_bytes, 1, most);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(room)));
}

LoadedModel load_model_for_inference(const std::filesystem::path& run_or_checkpoint) {
  auto model = load_model(run_or_checkpoint);
  model.config.threads = model.config.data.threads = 0;
  model.config.train.deterministic = true;
  return model;
}

}  // namespace nsvq
