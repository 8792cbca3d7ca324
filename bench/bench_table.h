#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "bench/profile.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

/// The least work of an operator's plain version; divided by the time it gives the rate reached.
struct Amount {
  double value;
  const char* unit;  ///< FLOP or B
};

/// What is measured, and how.
struct BenchChoice {
  int rounds = 5;
  std::string only, sizes;  ///< operators and cases whose name holds it
  int kernels = 0;          ///< longest kernels to show of each row; 0: no profile
};

/// A table of plain versions against ours: prints each row as soon as it is measured and keeps it
/// for a JSON file.
class BenchTable {
 public:
  /// Throws UserError where none of the operators `names` is chosen.
  BenchTable(c10::Device device, BenchChoice choice, std::vector<std::string> names);

  c10::Device device() const { return device_; }
  const Json& rows() const { return rows_; }
  /// Whether an operator, one of the names, is to be measured.
  bool wants(const std::string& name) const;
  bool wants_sizes(const std::string& sizes) const;

  void compare(const std::string& name, const std::string& sizes, Amount amount, const Work& plain,
               const Work& ours);

  /// Prints the longest kernels of each row, where they are asked for. Throws UserError if there
  /// is no row.
  void finish();

 private:
  struct Profile {
    std::string title;
    size_t row;
    std::vector<KernelTime> kernels;
  };

  c10::Device device_;
  BenchChoice choice_;
  std::vector<std::string> names_;
  Json rows_ = Json::array();
  std::vector<Profile> profiles_;  ///< one a row, if any
};

}  // namespace nsvq
