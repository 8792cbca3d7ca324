#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/nn/linear_cross_entropy.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings generator.*: the network that learns grids of tokens, and how it learns.
struct GeneratorConfig {
  std::string family = "masked";
  int64_t width = 768, depth = 12, heads = 12;
  int64_t hidden = 0;  ///< channels inside an MLP; 0: the family's own
  double dropout = 0.1;
  double label_dropout = 0.1;
  std::string head = "full";
  int64_t head_depth = 2;                      ///< of head factorised
  int64_t registers = 1;                       ///< of family masked
  std::string modulation = "block";            ///< of families masked and rar
  double anneal_from = 0.5, anneal_to = 0.75;  ///< of family rar, shares of the training
};

/// Rows generator.family, generator.width and so on.
std::vector<Option> generator_options(GeneratorConfig& config);

/// Settings sampling.*: how a trained generator samples; they travel with the model.
struct SamplingConfig {
  double guidance = 1;  ///< w of u + w (c - u), u without the class: 1 is without guidance
  std::string guidance_schedule = "constant";
  double guidance_power = 1;  ///< p of schedule power-cosine
  int64_t steps = 0;          ///< of family masked; 0: its own number
  double temperature = 1;
  double first_temperature = 0;  ///< of family masked; 0: `temperature` in every step
  int64_t top_k = 0;
  double top_p = 1;
  std::string order = "halton";     ///< of family masked
  bool redraw = false;              ///< of order halton
  double choice_temperature = 4.5;  ///< of order confidence

  bool operator==(const SamplingConfig&) const = default;
};

/// Rows sampling.guidance and so on.
std::vector<Option> sampling_options(SamplingConfig& config);

/// The grids that a generator learns and makes.
struct GridShape {
  int64_t height = 0, width = 0;
  int64_t codes = 0;
  int64_t classes = 0;  ///< 0: none are told

  int64_t positions() const { return height * width; }
};

/// Throws UserError, naming the key, for settings that contradict each other or the grid.
void check_generator(GeneratorConfig config, const GridShape& grid);
/// Throws UserError, naming the key, for sampling that such a generator cannot do.
void check_sampling(SamplingConfig sampling, const GeneratorConfig& config, const GridShape& grid);

/// A batch of training.
struct TokenImages {
  torch::Tensor tokens;    ///< [B, positions] int64, row by row
  torch::Tensor labels;    ///< [B] int64; undefined without classes
  torch::Tensor seeds;     ///< [B] int64, from which labels, masks and orders of an image follow
  torch::Tensor progress;  ///< [] fp32: the share of training that is done
  /// The gradients of the images' losses: equal where their mean is taken, which saves time.
  RowGradients gradients = RowGradients::any;
};

/// Images to be sampled.
struct TokenRequest {
  torch::Tensor labels;  ///< [B] int64; undefined without classes
  torch::Tensor seeds;   ///< [B] int64: an image's noise depends on its seed alone
  torch::Tensor given;  ///< [B, positions] int64, -1 where a token is to be found; may be undefined
  std::function<void()> before_step = [] {};
  /// On a GPU within a SideStreamGuard: steps run as CUDA graphs, kept for batches of equal shape.
  bool graphs = false;
};

/// A network that learns grids of tokens and makes new ones.
class Generator : public torch::nn::Module {
 public:
  /// [B] fp32: the mean cross-entropy of each image in nats a token. With `training` labels are
  /// dropped and dropout, which draws from torch's generator, is on. Runs without a host
  /// synchronisation.
  virtual torch::Tensor loss(const TokenImages& images, bool training) = 0;
  /// [B] fp32, without gradients: the mean of -log p(token | tokens that sampling finds before it),
  /// one token found at a time.
  virtual torch::Tensor surprise(const TokenImages& images);
  /// [B, positions] int64, without gradients. `given` tokens stay; only kinds with `fills_gaps`
  /// take them. Throws UserError for settings that check_sampling refuses.
  virtual torch::Tensor sample(const TokenRequest& request, const SamplingConfig& sampling) = 0;

  Precision precision = Precision::fp32;
};

/// A member of the family; each stands in a .cpp of its own.
struct GeneratorKind {
  std::string name;     ///< in recipes, generator.family
  std::string summary;  ///< in a line
  std::shared_ptr<Generator> (*make)(const GeneratorConfig& config, const GridShape& grid);
  bool fills_gaps;  ///< whether TokenRequest::given may be set: inpainting
  /// Throws UserError, naming the key, for networks that cannot be made.
  void (*check)(const GeneratorConfig& config);
  /// Steps of sampling, by sampling.steps; null: one a token.
  int64_t (*steps)(const SamplingConfig& sampling, const GridShape& grid) = nullptr;
};

const std::vector<GeneratorKind>& generator_kinds();
/// Throws UserError naming the valid ones.
const GeneratorKind& generator_kind(const std::string& name);

/// A generator with fresh weights on the CPU. Throws UserError for what check_generator refuses.
std::shared_ptr<Generator> make_generator(const GeneratorConfig& config, const GridShape& grid);

/// Casts the weights of products once, as autocast would at every use of them: a CUDA graph of a
/// step would cast all of them in each. The generator does not train and is not saved afterwards.
void cast_for_sampling(Generator& generator);

/// Steps of sampling, each of which calls TokenRequest::before_step.
int64_t sampling_steps(const SamplingConfig& sampling, const GeneratorConfig& config,
                       const GridShape& grid);

}  // namespace nsvq
