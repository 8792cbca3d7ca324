#include "nsvq/cli/arguments/output_name.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/io/files/atomic_file.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

bool names_file(const std::string& name) {
  std::error_code ignored;
  return !name.empty() && name != "-" && !fs::is_other(name, ignored) && !names_descriptor(name);
}

bool is_same_file(const std::string& one, const std::string& other) {
  if (!names_file(one) || !names_file(other)) return false;
  std::error_code error;
  if (fs::equivalent(one, other, error)) return true;
  const auto whole = [&](const std::string& name) {
    return fs::weakly_canonical(fs::absolute(name, error), error);
  };
  const auto a = whole(one), b = whole(other);
  return !a.empty() && a == b;
}

/// The folders above `path` that do not exist, the deepest first, and the one that does.
struct FoldersAbove {
  std::vector<fs::path> missing;
  fs::path existing;
};

FoldersAbove folders_above(const fs::path& path) {
  FoldersAbove above;
  std::error_code ignored;
  above.existing = fs::absolute(path).parent_path();
  for (; !fs::exists(above.existing, ignored); above.existing = above.existing.parent_path()) {
    above.missing.push_back(above.existing);
  }
  if (!fs::is_directory(above.existing, ignored)) {
    throw UserError("{}: {} is not a folder", path.string(), above.existing.string());
  }
  return above;
}

/// Refuses files that --force must not replace: other programs' or commands' files, by their names.
void require_replaceable(const NamedFile& output) {
  const auto& [option, file, ending] = output;
  if (!file.ends_with(ending)) {
    throw UserError("{} {}: exists and does not end in {}; choose another name", option, file,
                    ending);
  }
  const auto name = fs::path(file).filename();
  if (name == "manifest.json" || name == "state.json") {
    throw UserError("{} {}: belongs to a run or to a folder of tokens; choose another name", option,
                    file);
  }
}

void require_writable(const std::string& file) {
  const auto above = folders_above(file);
  std::error_code ignored;
  { const AtomicFile probe(file); }  // never committed: nothing appears
  for (const auto& made : above.missing) fs::remove(made, ignored);
}

}  // namespace

void declare_force(CLI::App& app, bool& force) {
  app.add_flag("--force", force, "replace files that exist (folders never are)");
}

void check_output_files(const std::vector<NamedFile>& outputs, bool force,
                        const std::vector<NamedFile>& inputs) {
  for (const auto& [option, file, ending] : outputs) {
    if (file == "-") throw UserError("{} -: nothing goes to standard output; name a file", option);
  }
  require_distinct(outputs);
  for (const auto& output : outputs) {
    for (const auto& input : inputs) require_distinct({input, output});
  }
  for (const auto& output : outputs) {
    const auto& [option, file, ending] = output;
    if (!names_file(file)) continue;
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      throw UserError("{} {}: a folder; name a file", option, file);
    }
    const bool filled = fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) > 0;
    if (filled && !force) {
      throw UserError("{} {}: exists; choose another name, or replace it with --force", option,
                      file);
    }
    if (filled) require_replaceable(output);
    require_writable(file);
  }
}

void check_output_folder(const std::string& out) {
  if (out == "-") {
    throw UserError("--out -: nothing goes to standard output here; name a folder");
  }
  std::error_code ignored;
  if (fs::exists(out, ignored) && !fs::is_directory(out, ignored)) {
    throw UserError("--out {}: exists and is not a folder; choose another name", out);
  }
  if (fs::is_directory(out, ignored)) return;  // it may be complete, and then nothing is written
  const auto folder = folders_above(out).existing;
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw UserError("--out {}: cannot write in {}: {}", out, folder.string(), std::strerror(errno));
}

void require_distinct(const std::vector<NamedFile>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t k = i + 1; k < files.size(); ++k) {
      if (!is_same_file(files[i].file, files[k].file)) continue;
      throw UserError("{} and {}: both name {}; choose another name for one of them",
                      files[i].option, files[k].option, files[k].file);
    }
  }
}

}  // namespace nsvq
