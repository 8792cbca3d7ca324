#include "nsvq/io/formats/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/byte_order.h"

namespace nsvq {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // numpy aligns the numbers
constexpr size_t kMostDimensions = 64;

/// The text after `'key':` in the header's Python dict, whose strings numpy never escapes.
std::string_view value_of(std::string_view dict, const std::string& key) {
  const auto name = "'" + key + "':";
  const auto at = dict.find(name);
  if (at == std::string_view::npos) throw UserError("the array's header has no '{}'", key);
  const auto rest = dict.substr(at + name.size());
  return rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
}

using Types = std::vector<std::pair<std::string_view, torch::ScalarType>>;

const Types& types_of(NpyNumbers numbers) {
  static const Types floating = {{"<f8", torch::kDouble}, {"<f4", torch::kFloat}};
  static const Types integer = {{"<i8", torch::kInt64},  {"<i4", torch::kInt32},
                                {"<i2", torch::kInt16},  {"|i1", torch::kInt8},
                                {"<u8", torch::kUInt64}, {"<u4", torch::kUInt32},
                                {"<u2", torch::kUInt16}, {"|u1", torch::kUInt8}};
  return numbers == NpyNumbers::floating ? floating : integer;
}

torch::ScalarType parse_type(std::string_view value, NpyNumbers numbers) {
  const auto end = value.find('\'', 1);
  const bool quoted = value.starts_with('\'') && end != std::string_view::npos;
  const auto descr = quoted ? value.substr(1, end - 1) : value;  // a list for record types
  for (const auto& [name, type] : types_of(numbers)) {
    if (descr == name) return type;
  }
  throw UserError("an array of type {}, expected {}", quote(descr),
                  numbers == NpyNumbers::floating ? "'<f8' or '<f4'"
                                                  : "little-endian integers of 8 to 64 bits");
}

bool parse_bool(std::string_view value) {
  if (value.starts_with("True")) return true;
  if (value.starts_with("False")) return false;
  throw UserError("the array's 'fortran_order' is neither True nor False");
}

/// "(2, 3)", "(5,)" or "()".
std::vector<int64_t> parse_shape(std::string_view value) {
  const auto end = value.find(')');
  const auto wrong = [&] {
    return UserError(
        "the array's shape is {}, expected whole numbers such as (2, 16, 16)",
        quote(value.substr(0, std::min<size_t>(end == value.npos ? end : end + 1, 40))));
  };
  if (!value.starts_with('(') || end == std::string_view::npos) throw wrong();
  std::vector<int64_t> shape;
  for (auto rest = value.substr(1, end - 1); !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto size = parse_decimal(rest.substr(0, comma));
    if (!size || shape.size() == kMostDimensions) throw wrong();
    shape.push_back(*size);
    rest = rest.substr(std::min(comma + 1, rest.size()));
    rest = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
  }
  return shape;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> all, NpyNumbers numbers) {
  const std::string_view bytes(reinterpret_cast<const char*>(all.data()), all.size());
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) throw UserError("an array that is no .npy");
  const auto version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) throw UserError("an array of .npy version {}", version);
  const size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) throw UserError("an array cut off in its header");
  const auto length = little_endian(all.subspan(8, start - 8));
  if (length > bytes.size() - start) throw UserError("an array cut off in its header");
  const auto dict = bytes.substr(start, length);
  return {parse_type(value_of(dict, "descr"), numbers), parse_bool(value_of(dict, "fortran_order")),
          parse_shape(value_of(dict, "shape")), start + length};
}

uint64_t NpyHeader::bytes() const {
  uint64_t bytes = torch::elementSize(type);
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  for (const int64_t size : shape) {
    if (static_cast<uint64_t>(size) > most / bytes) return most;
    if (size > 0) bytes *= static_cast<uint64_t>(size);
  }
  return std::ranges::find(shape, 0) == shape.end() ? bytes : 0;
}

std::string npy_header(const torch::Tensor& tensor) {
  static const std::map<at::ScalarType, const char*> types = {
      {torch::kDouble, "<f8"}, {torch::kFloat, "<f4"}, {torch::kInt32, "<i4"}};
  const auto type = types.find(tensor.scalar_type());
  TORCH_CHECK(type != types.end(), "npy: needs fp64, fp32 or int32, got ", tensor.scalar_type());
  const auto sizes = tensor.sizes().vec();
  auto dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                          type->second, fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 4, whole = before + dict.size() + 1;
  dict.append((kAlignment - whole % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {1, 0, static_cast<char>(dict.size() % 256), static_cast<char>(dict.size() / 256)};
  return header + dict;
}

torch::Tensor parse_npy(std::span<const std::byte> bytes, NpyNumbers numbers) {
  const auto header = parse_npy_header(bytes, numbers);
  const auto data = bytes.subspan(header.end);
  if (header.bytes() != data.size()) {
    throw UserError("an array of shape [{}] with {} bytes of numbers",
                    fmt::join(header.shape, ", "), data.size());
  }
  auto shape = header.shape;
  if (header.by_columns) std::reverse(shape.begin(), shape.end());
  auto tensor = torch::empty(shape, header.type);
  if (!data.empty()) std::memcpy(tensor.data_ptr(), data.data(), data.size());
  if (!header.by_columns) return tensor;
  std::vector<int64_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  return tensor.permute(order).contiguous();
}

}  // namespace nsvq
