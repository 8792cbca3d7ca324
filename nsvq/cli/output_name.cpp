#include "nsvq/cli/output_name.h"

#include <filesystem>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/core/lower_case.h"

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

}  // namespace

void require_folder_name(const std::string& out, const std::string& files) {
  const auto ending = std::filesystem::path(out).extension().string();
  std::error_code ignored;
  if (!is_of_files(ending) || std::filesystem::is_directory(out, ignored)) return;
  throw UserError("--out {0}: {1} files are not written here; name {2}a folder ({0}/ is one)", out,
                  ending, files.empty() ? "" : files + " or ");
}

}  // namespace nsvq
