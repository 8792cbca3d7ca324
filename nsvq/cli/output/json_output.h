#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "nsvq/cli/output/reserved_stdout.h"

namespace CLI {
class App;
}

namespace nsvq {

/// Declares `--json [FILE]`, alike for every command; without FILE it is "-".
void declare_json_argument(CLI::App& app, std::string& file);

/// Where a command's figures go as JSON: to a file, to standard output for the name "-", or nowhere
/// for an empty name. With "-", all that is printed while this object lives goes to standard error,
/// so that a program can read the JSON from standard output.
class JsonOutput {
 public:
  /// Throws UserError where the file exists and holds something else than JSON, RunError where it
  /// cannot be written, so that both are known before the work.
  explicit JsonOutput(std::string file);

  /// Whether anyone asked for JSON.
  bool wanted() const { return !file_.empty(); }
  /// Once, at the end. Throws RunError.
  void write(const nlohmann::ordered_json& json);

 private:
  std::string file_;
  std::optional<ReservedStdout> stdout_;
};

}  // namespace nsvq
