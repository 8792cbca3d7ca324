#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings replacement.* that policies share; each policy's own settings are a struct below.
struct ReplacementConfig : MemberSettings {
  std::string policy = "auto";
  int64_t every_steps = 0;
  double threshold = 1;
  double decay = 0.99;
  bool reset_moments = true;
};

/// Position of the run when a window of usage ends.
struct WindowEnd {
  int64_t step;   ///< steps done
  int64_t epoch;  ///< epochs finished
};

/// Replaces codes that (almost) nothing chooses, in any quantizer with a codebook. Policies
/// act on the codebook [K, d] in place and return which rows they overwrote, [K] of booleans on its
/// device, or nothing. Equal seeds give equal codes on every rank.
class Replacement {
 public:
  virtual ~Replacement() = default;

  /// After a step of a phase that replaces codes.
  virtual torch::Tensor after_step(torch::Tensor /*codebook*/, const StepOutputs& /*step*/) {
    return {};
  }
  /// Whether it acts after steps, on the codebook and on its own state.
  virtual bool acts_after_steps() const { return false; }
  /// After a window of such a phase: replacement.every_steps steps or, if that is 0, an epoch;
  /// `usage` [K] counts it over all ranks.
  virtual torch::Tensor after_window(torch::Tensor /*codebook*/, const torch::Tensor& /*usage*/,
                                     const WindowEnd& /*end*/, uint64_t /*seed*/) {
    return {};
  }
  /// The tensors a checkpoint keeps, to be read and overwritten.
  virtual TensorMap state() { return {}; }
};

/// A policy; replacement.cpp lists them.
struct ReplacementKind {
  std::string name;  ///< in recipes, replacement.policy
  std::function<std::unique_ptr<Replacement>(const ReplacementConfig&,
                                             const torch::Tensor& codebook)>
      make;
  /// Rows of its own settings; null: it has none.
  std::vector<Option> (*options)(ReplacementConfig&) = nullptr;
};

const std::vector<ReplacementKind>& replacement_kinds();

/// All settings replacement.*: those that policies share and those of each policy.
std::vector<Option> replacement_options(ReplacementConfig& config);

/// The policy of a recipe; "auto" stands for QuantizerKind::replacement.
std::string replacement_policy(const ReplacementConfig& config, const QuantizerConfig& quantizer);
/// The policy that has the setting of a key for itself, if it differs from `policy`.
std::string other_policy_of(const std::string& key, const std::string& policy);

/// The policy of a recipe for `quantizer`, made by `quantizer_config`; null for "none". Throws
/// UserError if the quantizer has no codebook to act on.
std::unique_ptr<Replacement> make_replacement(const ReplacementConfig& config,
                                              const QuantizerConfig& quantizer_config,
                                              Quantizer& quantizer);

// The members of the family; each policy is in its .cpp file.

struct CopyReplacementConfig {
  int64_t exempt_epochs = 5;
  int64_t exempt_steps = 0;
  double sigma = 0.001;
  double sigma_relative = 0;  ///< 0: sigma
  std::string source = "usage";
};

struct AnchorReplacementConfig {
  std::string anchor = "sampled";
  Distance distance = Distance::l2;  ///< no setting: make_replacement takes the quantizer's
};

/// Positions [K] in latents [N, d] of the most similar one to each code, the first on ties, without
/// a K x N matrix.
torch::Tensor most_similar(const torch::Tensor& codebook, const torch::Tensor& latents);

ReplacementKind copy_replacement_kind();
ReplacementKind restart_replacement_kind();
ReplacementKind anchor_replacement_kind();

}  // namespace nsvq
