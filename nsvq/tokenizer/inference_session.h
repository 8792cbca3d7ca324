#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// A trained tokenizer in use. Sets torch's process-wide flags for inference (threads, repeatable
/// convolutions, TF32 by the model's precision) and restores on destruction what it found, so one
/// session is used at a time.
///
///   nsvq::InferenceSession session("runs/photos");
///   const auto tokens = session.encode(images);
///   const auto pictures = session.decode(tokens);
class InferenceSession {
 public:
  /// `model` is a run's folder, a checkpoint folder or a model file; `device` is auto, cpu or cuda.
  /// Throws UserError.
  explicit InferenceSession(const std::filesystem::path& model, const std::string& device = "auto");
  /// With a model that is loaded already.
  InferenceSession(LoadedModel model, c10::Device device);

  /// Images [B, 3, H, W] in [-1, 1], from any device, to indices [B, h, w] on the session's device,
  /// or [B, n] of several grids.
  /// H and W are multiples of stride(). Throws c10::Error for non-finite latents, UserError if the
  /// model has no tokens.
  torch::Tensor encode(const torch::Tensor& images);
  /// Such indices to images [B, 3, H, W].
  torch::Tensor decode(const torch::Tensor& indices);
  /// Images as they come back; also of a model without tokens (quantizer.type: none).
  torch::Tensor reconstruct(const torch::Tensor& images);

  Tokenizer& tokenizer() { return model_.tokenizer; }
  const TokenizerConfig& config() const { return model_.config; }
  c10::Device device() const { return device_; }
  /// The file that the model was read from, its checksum verified (open_model_file).
  const std::filesystem::path& file() const { return model_.file; }
  /// Pixels per token along each side.
  int64_t stride() const { return model_.config.model.stride(); }
  /// 0 of a model without tokens.
  int64_t codes() const { return model_.tokenizer->quantizer->codes(); }
  /// Grids of the indices of images of height x width pixels. Throws UserError for a size that the
  /// quantizer does not take.
  std::vector<TokenGrid> grids(int64_t height, int64_t width) const {
    return model_.tokenizer->quantizer->grids(height / stride(), width / stride());
  }
  /// Throws UserError, naming the model, if it has no tokens.
  void require_tokens() const;

  /// A loader's options for this model: images in order, short side resized, centre crop, delivered
  /// on the session's device in batches as in training.
  LoaderOptions loader_options() const;
  /// Images per batch that keep a GPU busy, with half a GiB for an activation at full resolution
  /// (of which about five exist at a time); on a CPU as in training.
  int64_t batch_size(const TransformOptions& transform) const;

 private:
  LoadedModel model_;
  c10::Device device_;
  TorchFlags flags_;
};

/// A trained model with settings for this machine (threads, repeatable results) in place of those
/// of the one that trained it.
LoadedModel load_model_for_inference(const std::filesystem::path& run_or_checkpoint);

}  // namespace nsvq
