#include "nsvq/cli/json_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/cli/metric_arguments.h"
#include "nsvq/core/error.h"
#include "nsvq/io/file.h"

namespace nsvq {

namespace fs = std::filesystem;

void declare_json_argument(CLI::App& app, std::string& file) {
  app.add_option("--json", file,
                 "FILE: also write the figures as JSON; -: print JSON alone, and tables on "
                 "standard error");
}

void require_folder_of(const std::string& option, const std::string& file) {
  const auto folder = fs::path(file).parent_path();
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  throw UserError("{} {}: there is no folder {}", option, file, folder.string());
}

JsonOutput::JsonOutput(std::string file) : file_(std::move(file)) {
  if (file_ != "-") {
    require_folder_of("--json", file_);
    require_writable(file_);
    return;
  }
  std::fflush(stdout);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (stdout_ < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw RunError("--json -: standard output cannot be used");
  }
}

JsonOutput::~JsonOutput() { restore_stdout(); }

void JsonOutput::restore_stdout() {
  if (stdout_ < 0) return;
  std::fflush(stdout);
  ::dup2(stdout_, STDOUT_FILENO);
  ::close(std::exchange(stdout_, -1));
}

void JsonOutput::write(const nlohmann::ordered_json& json) {
  if (file_.empty()) return;
  // Names of files need not be UTF-8; JSON must be.
  const auto text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (file_ != "-") return write_text(file_, text);
  restore_stdout();
  fmt::print("{}", text);
}

}  // namespace nsvq
