#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/discriminator.h"

namespace torch::nn {
class LinearImpl;
}

namespace nsvq {

/// StyleGAN2's discriminator as MAGVIT has it: images [B, 3, S, S] to logits [B, 1, 1, 1], one for
/// a whole image. `layers` residual blocks halve the resolution, each by a blur with the kernel
/// (1, 3, 3, 1) in both branches; then a channel with the deviation over some images of the batch
/// (StyleGAN2; MAGVIT leaves it out), a convolution and two linear layers. No norms; initial values
/// are MAGVIT's, Xavier uniform and biases of 0, without StyleGAN2's factors on weights.
struct StyleDiscriminatorImpl : DiscriminatorNetwork {
  /// For images of `size` pixels a side. Throws UserError naming the key if an option is out of
  /// range, or if the blocks do not halve the size.
  StyleDiscriminatorImpl(const DiscriminatorConfig& options, int64_t size);
  torch::Tensor forward(torch::Tensor images) override;
  void check_image_size(int64_t height, int64_t width) const override;

 private:
  struct Block {
    std::shared_ptr<torch::nn::Conv2dImpl> keep, widen, skip;
  };
  torch::Tensor halved(const torch::Tensor& x) const;
  torch::Tensor through(const Block& block, const torch::Tensor& x) const;

  int64_t layers_, size_;
  torch::Tensor blur_;  ///< [1, 1, 4, 4]
  std::shared_ptr<torch::nn::Conv2dImpl> first_, last_;
  std::vector<Block> blocks_;
  std::shared_ptr<torch::nn::LinearImpl> join_, judge_;
};

/// Most blocks that leave a side of at least 4 pixels, the resolution at which StyleGAN2 ends; at
/// least 1.
int64_t style_layers(int64_t size);

/// Images [B, C, h, w] with one channel more: the deviation of a value over a group of images, its
/// mean over all values, in each image of the group. Groups have the largest number of images up to
/// 4 that divides B; image i is in group i modulo their number, as in StyleGAN2.
torch::Tensor with_batch_deviation(const torch::Tensor& images);

}  // namespace nsvq
