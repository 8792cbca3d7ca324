#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/nn/unet_blocks.h"
#include "nsvq/nn/unet_config.h"

namespace torch::nn {
class EmbeddingImpl;
}

namespace nsvq {

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
