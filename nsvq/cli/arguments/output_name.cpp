#include "nsvq/cli/arguments/output_name.h"

#include <filesystem>
#include <set>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/data/streams/pipe_commands.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace {

/// Whether an ending, as in `.webp`, is one of files, other than the `.v2` or `.16` of a name.
bool is_of_files(const std::string& ending) {
  static const std::set<std::string> kEndings = {
      // pictures and films
      ".apng", ".avi", ".avif", ".bmp", ".dng", ".exr", ".gif", ".hdr", ".heic", ".heif", ".ico",
      ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".jxl", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
      ".pbm", ".pdf", ".pgm", ".png", ".pnm", ".ppm", ".ps", ".psd", ".svg", ".tga", ".tif",
      ".tiff", ".webm", ".webp",
      // archives
      ".7z", ".bz2", ".gz", ".lz4", ".rar", ".tar", ".tbz", ".tbz2", ".tgz", ".txz", ".tzst", ".xz",
      ".zip", ".zst",
      // arrays, weights and records
      ".arrow", ".bin", ".ckpt", ".csv", ".dat", ".db", ".feather", ".h5", ".hdf5", ".json",
      ".jsonl", ".lmdb", ".mat", ".mdb", ".msgpack", ".npy", ".npz", ".onnx", ".parquet", ".pickle",
      ".pkl", ".pt", ".pth", ".safetensors", ".sqlite", ".tfevents", ".tfrecord", ".tfrecords",
      ".tsv",
      // texts and programs
      ".cpp", ".htm", ".html", ".ipynb", ".log", ".md", ".py", ".sh", ".toml", ".txt", ".xml",
      ".yaml", ".yml"};
  return kEndings.contains(lower_case(ending));
}

bool is_same_file(const std::string& one, const std::string& other) {
  namespace fs = std::filesystem;
  for (const auto* name : {&one, &other}) {
    std::error_code ignored;
    if (name->empty() || *name == "-" || fs::is_other(*name, ignored)) return false;
  }
  std::error_code error;
  if (fs::equivalent(one, other, error)) return true;
  const auto whole = [&](const std::string& name) {
    return fs::weakly_canonical(fs::absolute(name, error), error);
  };
  const auto a = whole(one), b = whole(other);
  return !a.empty() && a == b;
}

/// Throws UserError for a file among the checkpoints of a run, also behind a link: a checkpoint may
/// consist of it.
void refuse_checkpoints(const std::string& option, const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code error;
  auto folder = fs::weakly_canonical(fs::absolute(out, error), error).parent_path();
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    const auto run = folder.parent_path();
    if (folder.filename() != "checkpoints" || list_checkpoints(run).empty()) continue;
    throw UserError("{} {}: among the checkpoints of the run {}; choose another folder", option,
                    out, run.string());
  }
}

/// Whether a file is `path`, or lies below it, or a link below it leads to the file.
bool is_among(const std::filesystem::path& path, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return fs::equivalent(path, file, ignored);
  const auto inner = fs::canonical(file, ignored).lexically_relative(fs::canonical(path, ignored));
  if (!inner.empty() && *inner.begin() != "..") return true;
  // Only of links more is asked than their kind: there may be millions of images.
  fs::recursive_directory_iterator entry(path, ignored);
  for (; entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    std::error_code broken_link;
    if (entry->is_symlink(broken_link) && fs::equivalent(entry->path(), file, broken_link)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void require_folder_name(const std::string& out, const std::string& files) {
  if (out == "-") {
    throw UserError("--out -: nothing goes to standard output here; name {}a folder",
                    files.empty() ? "" : files + " or ");
  }
  refuse_checkpoints("--out", out);
  const auto ending = std::filesystem::path(out).extension().string();
  std::error_code ignored;
  if (!is_of_files(ending) || std::filesystem::is_directory(out, ignored)) return;
  throw UserError("--out {0}: {1} files are not written here; name {2}a folder ({0}/ is one)", out,
                  ending, files.empty() ? "" : files + " or ");
}

void require_writable(const std::string& file) {
  if (file.empty()) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw UserError("{}: a folder; name a file", file);
  }
  std::vector<std::filesystem::path> missing;  // the deepest first
  auto folder = std::filesystem::absolute(file).parent_path();
  for (; !std::filesystem::exists(folder, ignored); folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw UserError("{}: {} is not a folder", file, folder.string());
  }
  { const AtomicFile probe(file); }  // Never committed: nothing appears.
  for (const auto& made : missing) std::filesystem::remove(made, ignored);
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

void require_no_image(const std::string& option, const std::string& file, const Sources& data) {
  std::error_code ignored;
  if (any_pipe(data) || !std::filesystem::is_regular_file(file, ignored)) return;
  for (const auto& item : data.items) {
    if (item.starts_with("builtin:")) continue;
    for (const auto& path : expand_paths(item)) {
      if (!is_among(path, file)) continue;
      throw UserError("{} {}: one of the images of --data {}; choose another name", option, file,
                      item);
    }
  }
}

void require_replaceable(const std::string& option, const std::string& file, FileKind kind) {
  if (file.empty()) return;
  refuse_checkpoints(option, file);
  std::error_code error;
  const bool filled =
      std::filesystem::is_regular_file(file, error) && std::filesystem::file_size(file, error) > 0;
  if (!filled || is_of_kind(file, kind)) return;
  throw UserError("{} {}: exists and is not {}; choose another name or remove the file", option,
                  file, describe(kind));
}

}  // namespace nsvq
