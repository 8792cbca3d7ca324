#pragma once

#include "nsvq/core/config.h"
#include "nsvq/data/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/adam.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// What a run's seed is combined with, so that its parts draw independently.
enum class Draw : uint64_t {
  weights = 1,
  batches = 2,
  codebook = 3,
  replacement = 4,
  discriminator = 5,
  quantizer = 6
};
/// `number` is that of the epoch or step, where there is a draw in each.
uint64_t seed_for(const Config& config, Draw draw, int64_t number = 0);

/// Threads as in the recipe; convolution algorithms whose results repeat, unless it asks for the
/// fastest.
void prepare_torch(const Config& config);

/// Chooses convolutions that are fastest without gradients, for a model that is on its device; call
/// it after prepare_torch.
void prepare_inference(Tokenizer& model);

/// The source that a key of the recipe names, in whose errors the key stands.
std::shared_ptr<const Source> open_source_of(const std::string& key, const std::string& spec);

/// How images reach training: shuffled, cropped and flipped as in the recipe, delivered on
/// `device`.
LoaderOptions training_options(const Config& config, const Group& group,
                               c10::Device device = at::kCPU);

/// Puts a model on a device, in the memory order that is fast there, to compute in the precision
/// that the recipe's train.precision means there (fp32 on a CPU that lacks it).
void place(Tokenizer& model, const Config& config, c10::Device device);

/// Images at a time for a model that is only used: as in training on a CPU; on a GPU as many as
/// keep it busy, with half a GiB for an activation at full resolution (some five of which are there
/// at a time).
int64_t inference_batch_size(const Config& config, const TransformOptions& transform,
                             c10::Device device);

/// A model with fresh weights that depend on the seed alone, on `device`.
Tokenizer make_model(const Config& config, c10::Device device);

/// The names are the ones of the model's files.
Adam::Named named_parameters(const torch::nn::Module& module);

/// Parameters of a frozen module get no gradient, and so no step.
void freeze(torch::nn::Module& module, bool frozen);

/// The first `count` usable images of a source, or all if there are fewer, [n, 3, H, W].
torch::Tensor first_images(std::shared_ptr<const Source> source, const Config& config,
                           const Group& group, int64_t count);

/// "l1 0.2, vq 0.1" for messages.
std::string describe_scalars(const std::map<std::string, double>& scalars);

}  // namespace nsvq
