#include "nsvq/cli/arguments/output_name.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"

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

/// Throws UserError for a name that no file can have, such as one of more than 255 bytes.
void require_possible(const std::string& option, const std::string& name) {
  std::error_code error;
  const bool known = fs::status(name, error).type() != fs::file_type::none;
  const auto is_long = [](const fs::path& one) { return one.native().size() > NAME_MAX; };
  if (known && std::ranges::none_of(fs::path(name), is_long)) return;
  if (known) error = std::make_error_code(std::errc::filename_too_long);
  throw UserError("{} {}: {}", option, name, error.message());
}

/// Whether `file` is below `folder`, by their names or behind links.
bool is_below(const fs::path& file, const fs::path& folder) {
  const auto within = [](const fs::path& inner) {
    return !inner.empty() && *inner.begin() != "..";
  };
  std::error_code error;
  return within(fs::absolute(file, error)
                    .lexically_normal()
                    .lexically_relative(fs::absolute(folder, error).lexically_normal())) ||
         within(fs::canonical(file, error).lexically_relative(fs::canonical(folder, error)));
}

/// Whether `file` is among what an input names: a folder with images, a list or a pattern.
bool is_read(const NamedFile& input, const std::string& file) {
  std::vector<fs::path> paths = {input.file};
  try {
    if (!fs::exists(input.file)) paths = expand_paths(input.file);
  } catch (const std::exception&) {
    return false;  // no list of files: opening it tells more
  }
  const auto contains = [&](const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return fs::equivalent(path, file, error);
    return is_image_name(file) && is_below(file, path);
  };
  return std::ranges::any_of(paths, contains);
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

void require_writable(const std::string& option, const std::string& file) try {
  const auto above = folders_above(file);
  std::error_code ignored;
  { const AtomicFile probe(file); }  // never committed: nothing appears
  for (const auto& made : above.missing) fs::remove(made, ignored);
} catch (const MachineFailure&) {
  throw;
} catch (const RunError& error) {
  throw UserError("{}: {}", option, error.what());
}

/// The folder can be listed, but not every folder that can be takes new ones: one is made.
void require_room_for_folder(const std::string& out) {
  const auto folder = folders_above(out).existing;
  auto probe = (folder / ".nsvq.tmp-XXXXXX").string();
  if (::mkdtemp(probe.data()) != nullptr) {
    ::rmdir(probe.c_str());
    return;
  }
  const int error = errno;
  const auto text =
      fmt::format("--out {}: cannot write in {}: {}", out, folder.string(), std::strerror(error));
  if (means_no_room(error)) throw NoRoom("{}", text);
  throw UserError("{}", text);
}

}  // namespace

void declare_force(CLI::App& app, bool& force) {
  app.add_flag("--force", force, "replace files that exist (folders never are)")->group(kRare);
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
    require_possible(option, file);
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
    if (filled) require_unread(output, inputs);
    require_writable(option, file);
  }
}

void require_unread(const NamedFile& output, const std::vector<NamedFile>& inputs) {
  std::error_code ignored;
  if (!fs::exists(output.file, ignored)) return;
  for (const auto& input : inputs) {
    if (!is_read(input, output.file)) continue;
    throw UserError("{} {}: is among the images of {}; choose another name", output.option,
                    output.file, input.option);
  }
}

void check_output_folder(const std::string& out) {
  if (out == "-") {
    throw UserError("--out -: nothing goes to standard output here; name a folder");
  }
  require_possible("--out", out);
  std::error_code ignored;
  if (fs::exists(out, ignored) && !fs::is_directory(out, ignored)) {
    throw UserError("--out {}: exists and is not a folder; choose another name", out);
  }
  if (!fs::is_directory(out, ignored)) return require_room_for_folder(out);
  // One that is complete need not be writable.
  if (!fs::is_empty(out, ignored) || ::access(out.c_str(), W_OK | X_OK) == 0) return;
  throw UserError("--out {}: cannot write there: {}", out, std::strerror(errno));
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
