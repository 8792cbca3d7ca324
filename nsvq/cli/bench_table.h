#pragma once

#include <c10/core/Device.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/cli/bench_timer.h"

namespace nsvq {

/// The least work of an operator's plain version; divided by the time it gives the rate reached.
struct Amount {
  double value;
  const char* unit;  ///< FLOP or B
};

/// A table of plain versions against ours: prints each row as soon as it is measured and keeps it
/// for a JSON file.
class BenchTable {
 public:
  /// Of the operators `names`, only those whose name contains `only` are measured. Throws UserError
  /// where there is none.
  BenchTable(c10::Device device, int rounds, std::string only, std::vector<std::string> names);

  c10::Device device() const { return device_; }
  const nlohmann::ordered_json& rows() const { return rows_; }
  /// Whether an operator, one of the names, is to be measured.
  bool wants(const std::string& name) const;

  void compare(const std::string& name, const std::string& sizes, Amount amount, const Work& plain,
               const Work& ours);

 private:
  c10::Device device_;
  int rounds_;
  std::string only_;
  std::vector<std::string> names_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace nsvq
