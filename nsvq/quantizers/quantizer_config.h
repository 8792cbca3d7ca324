#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// The largest codebook.
inline constexpr int64_t kMostCodes = 16777216;

/// Settings quantizer.* that all quantizers share. A member's own settings are a struct
/// of members.h, reached by `of<FsqConfig>()`.
struct QuantizerConfig : MemberSettings {
  std::string type = "nsvq";
  int64_t codes = 65536;
  std::string init = "gaussian";
  double init_scale = 1;
  double beta = 0.25;
  double alpha = 0.1;
  bool alpha_relative = false;
  double tau = 0.35;
  double tau_of_nearest = 0;
  std::string kernel = "softmax";
  double decorrelation = 0;
  double participation = 0;
  bool rotation = false;
  bool normalise = false;
  std::string operators = "streaming";
};

/// All settings quantizer.*: those that members share and those of each kind.
std::vector<Option> quantizer_options(QuantizerConfig& config);

}  // namespace nsvq
