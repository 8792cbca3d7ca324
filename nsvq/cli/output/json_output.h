#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "nsvq/cli/output/stdout.h"
#include "nsvq/io/formats/json.h"

namespace CLI {
class App;
}

namespace nsvq {

/// `--json [FILE]` and `--force`.
struct JsonArgument {
  std::string file;  ///< "-": standard output, also without FILE; empty: no JSON
  bool force = false;
};

void declare_json_argument(CLI::App& app, JsonArgument& argument);

/// A line for each value that is no object; lists as 8x8.
void print_values(const Json& json);

/// Where a command's figures go as JSON: to a file, to standard output for the name "-", or nowhere
/// for an empty name. With "-", all that is printed while this object lives goes to standard error,
/// so that a program can read the JSON from standard output.
class JsonOutput {
 public:
  /// Checks the file before the work, by the rule of output_name.h.
  explicit JsonOutput(const JsonArgument& argument);

  /// Whether anyone asked for JSON.
  bool wanted() const { return !file_.empty(); }
  /// Once, at the end. Throws RunError.
  void write(const Json& json);

 private:
  std::string file_;
  std::optional<ReservedStdout> stdout_;
};

}  // namespace nsvq
