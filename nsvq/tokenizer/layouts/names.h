#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// How the sizes of one tensor differ between two programs.
enum class Form {
  same,
  linear_there,  ///< theirs [K, C] of a linear layer, ours [K, C, 1, 1] of a convolution
  linear_here,   ///< the other way round
  fused_there    ///< theirs, NAME.qkv.*, is NAME.q.*, NAME.k.* and NAME.v.* one after the other
};

/// Names of a tensor, or of a row of tensors, in another program's files and in ours. Both names
/// have the same wildcards in the same order: `#` a number, `+` one that they count from 0 and we
/// from 1,
/// `~` that of a level, counted from opposite ends, and `*` at the end the rest of the name.
struct NameRule {
  std::string theirs, ours;
  Form form = Form::same;
};

enum class Side { theirs, ours };

/// Names of one side turned into those of the other, by the first rule that fits.
class Renaming {
 public:
  /// `names` are all names of the side `from`: they tell how many levels there are.
  Renaming(std::vector<NameRule> rules, Side from, const std::vector<std::string>& names);

  struct Result {
    std::string name;
    Form form;
  };
  /// nullopt where no rule fits.
  std::optional<Result> operator()(std::string_view name) const;

 private:
  const std::string& pattern(const NameRule& rule, Side side) const;

  std::vector<NameRule> rules_;
  Side from_;
  int64_t levels_ = 0;
};

/// Whether a name fits a pattern of NameRule.
bool fits(std::string_view pattern, std::string_view name);

/// A tensor's sizes on the side `to`, given those on the other.
std::vector<int64_t> sizes_on(Side to, Form form, std::vector<int64_t> sizes);

}  // namespace nsvq
