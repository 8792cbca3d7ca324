#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// Training data of latent diffusion: batches of images [B, 3, H, W] fp32, tokens [B, h, w] int64
/// or latents [B, d, h, w] bf16, their positions in the source [B] and, with classes, their labels
/// [B], on one device.
class DiffusionBatches : public BatchSource {
 public:
  /// Name of the image at a position of the source, for messages.
  virtual std::string name_of(int64_t position) const = 0;
  /// Names of the classes, by number; empty where they have none.
  virtual std::vector<std::string> classes() const { return {}; }
};

/// What the settings name: images (data.train), tokens (diffusion.tokens) or latents
/// (diffusion.cached). Throws UserError.
std::unique_ptr<DiffusionBatches> make_diffusion_batches(const DiffusionConfig& config,
                                                         const LatentSpace& latents,
                                                         const Group& group, c10::Device device);

}  // namespace nsvq
