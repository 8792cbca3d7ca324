#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/member_settings.h"
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
  double tau = 0.35;
  bool rotation = false;
  std::string operators = "streaming";
};

/// All settings quantizer.*: those that members share and those of each kind.
std::vector<Option> quantizer_options(QuantizerConfig& config);

}  // namespace nsvq
