#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nsvq/diffusion/config.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/labelled_batches.h"

namespace nsvq {

/// What the settings name: images (data.train), tokens (diffusion.tokens) or latents
/// (diffusion.cached). Throws UserError.
std::unique_ptr<LabelledBatches> make_diffusion_batches(const DiffusionConfig& config,
                                                        const LatentSpace& latents,
                                                        const Group& group, c10::Device device);

/// A folder of tokens (`nsvq tokenize`), of which each takes four bytes. Throws UserError if the
/// folder is incomplete or damaged, of another model or another grid than `shape` [d, h, w] has.
LabelledTensor read_tokens_to_learn(const std::string& folder, const LatentSpace& latents,
                                    const std::vector<int64_t>& shape, int64_t size);

/// A folder of latents (`nsvq encode`), of which each number takes two bytes. Throws UserError as
/// for tokens.
LabelledTensor read_latents_to_learn(const std::string& folder, const LatentSpace& latents,
                                     const std::vector<int64_t>& shape, int64_t size);

}  // namespace nsvq
