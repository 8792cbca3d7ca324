#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// A tensor in a safetensors file; offsets count from the end of the header.
struct TensorEntry {
  std::string name;
  torch::ScalarType type{};
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

/// Bytes of a tensor's name that an error shows (quote in core/text.h).
inline constexpr size_t kShownName = 80;

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> entries;  ///< in the order of their data
};

/// Checks everything against the `data_bytes` that follow the header. Throws UserError, without the
/// file's name.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes);

/// Reads a file's header only. Throws UserError as read_safetensors does.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

/// The header's JSON, padded with spaces to a multiple of 8. Throws RunError.
std::string format_safetensors_header(const SafetensorsHeader& header);

/// The format's name of a type ("F32"); null for one that it does not have.
const char* safetensors_dtype(torch::ScalarType type);

}  // namespace nsvq
