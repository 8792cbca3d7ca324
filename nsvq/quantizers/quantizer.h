#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/dist/group.h"
#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/quantizers/token_grid.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// What a training step asks of a quantizer.
struct QuantizerStep {
  bool commitment = true;  ///< terms that move the encoder
  /// A method's own codebook terms beyond the embedding term, such as the NS loss.
  bool extra_codebook_terms = true;
  /// Global step as a scalar on the latents' device, for annealed temperatures. A tensor, like the
  /// seed, so that a captured CUDA graph reads its current value; undefined means 0.
  torch::Tensor step;
  /// Seed of the step's random numbers (nsvq/ops/random/seeded_random.h); without it nothing is
  /// random.
  std::optional<torch::Tensor> seed;
  /// Number of this slice of the step's latents, counted over ranks and passes, which have slices
  /// of equal size: noise depends on the latent's index in the whole step.
  int64_t part = 0;
  /// The ranks over whose latents entropies are taken; null: this rank alone.
  Group* entropy_group = nullptr;

  /// Number of the first of latents [N, d] among those of the step.
  int64_t first_row(const torch::Tensor& flat) const { return part * flat.size(0); }
};

/// What quantizing a batch of latents gives.
struct Quantized {
  torch::Tensor latents;  ///< [B, d, h, w], codes with straight-through gradients
  torch::Tensor indices;  ///< [B, h, w] int64; [B, 0, 0] of a member without tokens
  torch::Tensor loss;     ///< scalar, the weighted sum of the terms asked for
  /// Detached scalars, which metrics.jsonl, TensorBoard and the report show by name, as means over
  /// slices, ranks and steps; "commitment" is always there. They are the same in all steps of a
  /// phase and made without a wait for the device. One that is not finite makes the step skipped.
  /// Names that the objective logs itself are taken: loss, vq, generator, discriminator, lr, those
  /// of losses (l1) and the others of docs/runs.md, "Lines of metrics.jsonl".
  TensorMap terms;
};

/// What a trained quantizer makes of latents.
struct Assignment {
  torch::Tensor latents;  ///< [B, d, h, w] that the decoder is given
  torch::Tensor indices;  ///< as `encode` returns; [B, 0, 0] of a member without tokens
};

/// What an optimizer step leaves for statistics and replacement policies.
struct StepOutputs {
  torch::Tensor latents;  ///< [N, d] of this rank, detached; rank r has the r-th part of all
  torch::Tensor indices;  ///< [N] as `quantize` gave them
  /// Seed of the random numbers drawn after the step (nsvq/ops/random/seeded_random.h), equal on
  /// all ranks.
  torch::Tensor seed;
  Group& group;
};

/// By which latents and codes are compared: the squared distance, or the angle between them.
enum class Distance { l2, cosine };

/// Weights of penalties on the latents' covariance, which any quantizer may have.
struct LatentPenalties {
  double decorrelation = 0;  ///< on the mean squared correlation of two channels
  double participation = 0;  ///< on 1 / participation ratio
};

/// A tokenizer's bottleneck: latents to codes and back.
class Quantizer : public torch::nn::Module {
 public:
  /// Quantizes latents [B, d, h, w] with gradients and losses; changes no state. Half precision is
  /// widened first and automatic casts are off within: codes and distances are fp32 at least.
  Quantized quantize(const torch::Tensor& latents, const QuantizerStep& step);
  /// From now on `quantize` adds them where the step asks for terms that move the encoder.
  void set_penalties(const LatentPenalties& penalties) { penalties_ = penalties; }
  /// Indices [B, h, w] alone, or [B, n] of several grids, without gradients or losses; changes no
  /// state. Throws if a latent has no nearest code.
  torch::Tensor encode(const torch::Tensor& latents);
  /// Asynchronous encode: on a GPU latents without a nearest code get index -1; call
  /// throw_if_marked (search.h) before use.
  torch::Tensor encode_without_waiting(const torch::Tensor& latents);
  /// Indices as `encode` gives them to the latents [B, d, h, w] that the decoder is given.
  virtual torch::Tensor decode(const torch::Tensor& indices) = 0;
  /// Number of distinct indices; 0 for a member without tokens, which neither encodes nor decodes.
  virtual int64_t codes() const = 0;
  /// Grids of the indices of latents [B, d, height, width], one but for a member with several
  /// scales: its indices are those of all grids in this order, each row by row. Throws UserError
  /// for a size that the member does not take.
  virtual std::vector<TokenGrid> grids(int64_t height, int64_t width) const {
    return {{height, width}};
  }

  /// Latents [B, d, h, w] through quantization, without gradients or losses: what `decode` gives
  /// for `encode`; a member without tokens has it too. Changes no state. Throws if a latent has no
  /// nearest code.
  Assignment assign(const torch::Tensor& latents);
  /// Asynchronous assign: on a GPU latents without a nearest code get index -1 and code 0's latent.
  virtual Assignment assign_without_waiting(const torch::Tensor& latents);

  /// Updates running statistics, and codes that no gradient moves, after an optimizer step. Also
  /// called in a step that is skipped, since only the device knows that: it changes the tensors
  /// that `statistics` lists, in place and without a wait for the device, and nothing else.
  virtual void update_statistics(const StepOutputs& /*step*/) {}
  /// The tensors that `update_statistics` changes. A skipped step puts their values back.
  virtual std::vector<torch::Tensor> statistics() { return {}; }

  /// All codes [K, d] as latents are compared with them, without gradients; undefined where they
  /// are too many to list.
  virtual torch::Tensor code_vectors() { return codebook(); }
  /// The codebook [K, d] whose rows a replacement may overwrite; undefined where there is none.
  virtual torch::Tensor codebook() { return {}; }
  /// By which latents choose among the codebook's rows.
  virtual Distance distance() const { return Distance::l2; }
  /// Latents [N, d] or [B, d, h, w] as meters and replacement policies compare them with codes:
  /// with quantizer.normalise divided by their norms.
  virtual torch::Tensor compared(const torch::Tensor& latents) const { return latents; }
  /// Called after rows were overwritten, [K] of booleans: statistics kept for them start anew.
  virtual void rows_replaced(const torch::Tensor& /*rows*/) {}

  /// Called when a run begins, before it leaves a trace: reads files that the recipe names. Throws
  /// UserError.
  virtual void begin() {}
  /// Called once, before training, with latents [N, d] of the first batches, if `wants_data` says
  /// so.
  virtual bool wants_data() const { return false; }
  /// How many of them it asks for; it makes do with fewer.
  virtual int64_t latents_wanted() const { return codes(); }
  virtual void initialise_from(const torch::Tensor& /*latents*/, uint64_t /*seed*/) {}

 protected:
  /// `quantize` and `encode_without_waiting` of latents in fp32 or fp64.
  virtual Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) = 0;
  virtual torch::Tensor encode_wide(const torch::Tensor& latents) = 0;

 private:
  LatentPenalties penalties_;
};

/// Rows of a member's own settings, bound to its struct in the configuration.
using QuantizerOptions = std::vector<Option> (*)(QuantizerConfig&);

/// A member of the family. Each file of a member defines its kind; registry.cpp lists them.
struct QuantizerKind {
  std::string name;     ///< in recipes, quantizer.type
  std::string summary;  ///< in a line
  std::function<std::shared_ptr<Quantizer>(const QuantizerConfig&, int64_t latent_dim)> make;
  QuantizerOptions options = nullptr;  ///< its own settings; kinds may share them
  /// Its reference's defaults where they differ from the general ones, as "key=value". They hold
  /// for keys that neither recipe nor command line sets.
  std::vector<std::string> defaults = {};
  std::string replacement = "none";  ///< the policy that replacement.policy: auto stands for
  bool rotates = true;               ///< takes quantizer.rotation; make_quantizer refuses it else
  /// Why it does not take quantizer.normalise, after its name; empty: it does.
  std::string refuses_norms = "";
  bool codebook = true;  ///< has a codebook() whose rows a policy may replace
  /// What model.latent_dim must be, one channel for each of the setting `channels`; null: anything.
  int64_t (*latent_dim)(const QuantizerConfig&) = nullptr;
  std::string channels = "";
  /// Where quantizer.codes has no say: what the number of codes is.
  std::string codes_are = "";
  bool tokens = true;  ///< gives indices and a commitment loss
  /// Why no model with it is trained, after its name; empty: it trains. `quantize` then throws.
  std::string untrained = "";
  bool batch_entropy = false;     ///< has a term of all latents' entropy: takes dist.entropy
  bool ns_loss = false;           ///< has the NS loss: takes quantizer.alpha and its other settings
  bool weighs_commitment = true;  ///< a larger quantizer.beta draws latents closer to their codes

  // For the tests that go through all kinds.
  std::vector<std::string> small = {};  ///< settings of a small one, as "key=value"
  bool straight_through = true;         ///< the encoder gets the decoder's gradient unchanged
  bool any_codes = true;  ///< quantizer.codes is its number of codes and may be any number
};

template <typename Member>
std::shared_ptr<Quantizer> make_member(const QuantizerConfig& config, int64_t latent_dim) {
  return std::make_shared<Member>(config, latent_dim);
}

/// All members, in the order in which documents list them.
const std::vector<QuantizerKind>& quantizer_kinds();

/// Throws UserError naming the valid types if `type` is none of them.
const QuantizerKind& quantizer_kind(const std::string& type);

/// The kinds whose own setting `key` is, as "fsq" or "gumbel, ibq"; empty if it is one of `type`,
/// or none of any kind.
std::string other_kinds_of(const std::string& key, const std::string& type);

/// Throws UserError for a type with which nothing is trained.
void require_trained(const QuantizerConfig& config);

/// Throws UserError if `config` does not fit its type.
std::shared_ptr<Quantizer> make_quantizer(const QuantizerConfig& config, int64_t latent_dim);

}  // namespace nsvq
