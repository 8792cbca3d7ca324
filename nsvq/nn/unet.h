#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/nn/unet_blocks.h"
#include "nsvq/settings/option.h"

namespace torch::nn {
class EmbeddingImpl;
}

namespace nsvq {

/// Settings unet.*; the defaults are the paper's.
struct UnetConfig {
  int64_t width = 256;
  std::vector<int64_t> multipliers = {1, 2, 4};
  int64_t blocks = 2;
  std::vector<int64_t> attention = {0, 1, 2};
  int64_t heads = 4;

  /// Latents per side of which one is left at the lowest resolution.
  int64_t stride() const { return int64_t{1} << (multipliers.size() - 1); }
};

std::vector<Option> unet_options(UnetConfig& config);
/// Throws UserError, naming the key, for what no network can be made of.
void check_unet(UnetConfig config);

/// What the data decide of a U-Net.
struct UnetInputs {
  int64_t channels = 128;  ///< of a latent, in and out
  int64_t labels = 0;      ///< classes that have an embedding; 0: none
};

/// The U-Net of latent diffusion (CompVis' openaimodel.py with plain attention blocks), with its
/// parameter names: its weights load into that one and back. It predicts, for noisy latents and the
/// times of their noise, the noise or whatever it is trained on.
struct UnetImpl : torch::nn::Module {
  UnetImpl(const UnetConfig& config, const UnetInputs& inputs);
  /// Latents [B, C, h, w], whose sides are multiples of the stride, times [B] and, if there are
  /// classes, labels [B] int64 below `labels`. Returns [B, C, h, w] in fp32 at least. Runs under
  /// autocast to `precision`, without a host synchronisation.
  torch::Tensor forward(const torch::Tensor& latents, const torch::Tensor& times,
                        const torch::Tensor& labels = {});

  Precision precision = Precision::fp32;

 private:
  /// A part of the way down, one of the two.
  struct Down {
    std::shared_ptr<UnetStageImpl> stage;
    std::shared_ptr<UnetDownsampleImpl> downsample;
  };
  int64_t add_down(torch::nn::Module& list, const UnetConfig& config,
                   std::vector<int64_t>& skip_widths);
  void add_up(torch::nn::Module& list, const UnetConfig& config, int64_t width,
              std::vector<int64_t> skip_widths);
  void check(const torch::Tensor& latents, const torch::Tensor& times,
             const torch::Tensor& labels) const;
  torch::Tensor condition(const torch::Tensor& times, const torch::Tensor& labels);

  UnetInputs inputs_;
  int64_t width_, stride_;
  std::shared_ptr<torch::nn::LinearImpl> time1_, time2_;
  std::shared_ptr<torch::nn::EmbeddingImpl> label_emb_;  ///< null without classes
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::vector<Down> down_;
  std::shared_ptr<UnetMiddleImpl> middle_;
  std::vector<std::shared_ptr<UnetStageImpl>> up_;
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Unet);

}  // namespace nsvq
