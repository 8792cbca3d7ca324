#pragma once

#include <string>

namespace nsvq {

/// Files that commands write.
enum class FileKind {
  codebook,
  exported_settings,
  html,
  image_table,
  json,
  model,
  npz,
  picture,
  svg,
  tar
};

/// The kind in words, as in "exists and is not JSON".
std::string describe(FileKind kind);

/// Whether a file begins as its kind does; JSON is read to its end.
bool is_of_kind(const std::string& file, FileKind kind);

}  // namespace nsvq
