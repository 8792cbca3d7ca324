#include "nsvq/cli/output/json_output.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace fs = std::filesystem;

void declare_json_argument(CLI::App& app, JsonArgument& argument) {
  app.add_option(
         "--json", argument.file,
         "write the figures as JSON to FILE; without FILE to standard output, and tables to "
         "standard error")
      ->expected(0, 1)
      ->type_name("[FILE]")
      ->default_str("-");  // the value where no FILE follows
  declare_force(app, argument.force);
}

namespace {

std::string shown_value(const Json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const auto& entry : value) text += (text.empty() ? "" : "x") + entry.dump();
  return text;
}

/// A device, a pipe or what a descriptor has open (/dev/fd/3), links followed: written to, not
/// replaced.
bool is_stream(const fs::path& file) {
  std::error_code ignored;
  const auto type = fs::status(file, ignored).type();
  if (type == fs::file_type::character || type == fs::file_type::fifo) return true;
  return names_descriptor(file);
}

void write_to_stream(const std::string& file, const std::string& text) {
  flush_stdout();  // may be the same stream
  auto* stream = std::fopen(file.c_str(), "a");
  if (stream == nullptr) throw RunError("cannot write {}: {}", file, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (std::fclose(stream) != 0 || !written) {
    throw RunError("cannot write {}: {}", file, std::strerror(errno));
  }
}

/// A link's target is replaced, not the link.
fs::path behind_links(const fs::path& file) {
  std::error_code error;
  const auto real = fs::canonical(file, error);
  return error ? file : real;
}

}  // namespace

void print_values(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) fmt::print("{:12} {}\n", key, shown_value(value));
  }
}

JsonOutput::JsonOutput(const JsonArgument& argument)
    : file_(argument.file == "/dev/stdout" ? "-" : argument.file) {
  if (file_ == "-") {
    stdout_.emplace("--json -");
  } else {
    check_output_files({{"--json", file_, ".json"}}, argument.force);
  }
}

void JsonOutput::write(const Json& json) {
  if (file_.empty()) return;
  // Names of files need not be UTF-8; JSON must be.
  const auto text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file_ != "-" && is_stream(file_)) return write_to_stream(file_, text);
  if (file_ != "-") return write_text(behind_links(file_), text);
  stdout_->print(text);
}

}  // namespace nsvq
