#include "nsvq/io/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

namespace {

using nlohmann::json;
using Wrong = UserError;

constexpr const char* metadata_key = "__metadata__";
constexpr size_t most_dimensions = 64;  // torch's limit

struct Dtype {
  const char* name;
  torch::ScalarType type;
};

constexpr std::array<Dtype, 13> dtypes{{{"F64", torch::kFloat64},
                                        {"F32", torch::kFloat32},
                                        {"F16", torch::kFloat16},
                                        {"BF16", torch::kBFloat16},
                                        {"I64", torch::kInt64},
                                        {"U64", torch::kUInt64},
                                        {"I32", torch::kInt32},
                                        {"U32", torch::kUInt32},
                                        {"I16", torch::kInt16},
                                        {"U16", torch::kUInt16},
                                        {"I8", torch::kInt8},
                                        {"U8", torch::kUInt8},
                                        {"BOOL", torch::kBool}}};

json parse_header_json(std::string_view text) {
  try {
    json header = parse_json(text, 3);
    if (!header.is_object()) throw Wrong("not a JSON object");
    return header;
  } catch (const UserError& error) {
    throw Wrong("the header: {}", error.what());
  }
}

std::map<std::string, std::string> parse_metadata(const json& object) {
  std::map<std::string, std::string> metadata;
  if (!object.is_object()) throw Wrong("{} is not an object", metadata_key);
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) throw Wrong("the metadata {} is not a string", quote(key, kShownName));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The unsigned integers of an array field of a tensor's description.
std::vector<uint64_t> numbers(const json& tensor, const char* field, const std::string& name) {
  const auto found = tensor.find(field);
  bool good = found != tensor.end() && found->is_array();
  for (const auto& number : good ? *found : json::array()) good &= number.is_number_unsigned();
  if (!good)
    throw Wrong("tensor {}: '{}' is not a list of whole numbers", quote(name, kShownName), field);
  return found->get<std::vector<uint64_t>>();
}

torch::ScalarType parse_dtype(const json& tensor, const std::string& name) {
  const auto found = tensor.find("dtype");
  if (found == tensor.end() || !found->is_string()) {
    throw Wrong("tensor {}: 'dtype' is missing", quote(name, kShownName));
  }
  const auto text = found->get<std::string>();
  for (const Dtype& dtype : dtypes) {
    if (text == dtype.name) return dtype.type;
  }
  throw Wrong("tensor {}: dtype {} is not supported", quote(name, kShownName),
              quote(text, kShownName));
}

// The shape and its bytes, refusing what torch's own products would overflow on.
uint64_t set_shape(TensorEntry& entry, const std::vector<uint64_t>& sizes) {
  if (sizes.size() > most_dimensions) {
    throw Wrong("tensor {}: {} dimensions are too many", quote(entry.name, kShownName),
                sizes.size());
  }
  uint64_t span = torch::elementSize(entry.type);
  bool empty = false;
  for (const uint64_t size : sizes) {
    const uint64_t factor = std::max<uint64_t>(size, 1);
    if (factor > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / span) {
      throw Wrong("tensor {}: its shape is too large", quote(entry.name, kShownName));
    }
    span *= factor;
    empty |= size == 0;
    entry.shape.push_back(static_cast<int64_t>(size));
  }
  return empty ? 0 : span;
}

TensorEntry parse_entry(const std::string& name, const json& tensor) {
  if (!tensor.is_object())
    throw Wrong("tensor {}: its description is no object", quote(name, kShownName));
  TensorEntry entry;
  entry.name = name;
  entry.type = parse_dtype(tensor, name);
  const uint64_t bytes = set_shape(entry, numbers(tensor, "shape", name));
  const std::vector<uint64_t> offsets = numbers(tensor, "data_offsets", name);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw Wrong("tensor {}: 'data_offsets' is not a begin and an end", quote(name, kShownName));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end - entry.begin != bytes) {
    throw Wrong("tensor {}: {} bytes by its offsets, {} by its shape and dtype",
                quote(name, kShownName), entry.end - entry.begin, bytes);
  }
  return entry;
}

// Every byte after the header belongs to one tensor.
void check_cover(std::vector<TensorEntry>& entries, uint64_t bytes) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t position = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != position) {
      throw Wrong("tensor {} begins at {}, where {} was due (overlap or gap)",
                  quote(entry.name, kShownName), entry.begin, position);
    }
    if (entry.end > bytes) {
      throw Wrong("tensor {} ends at {}, the data at {} (a truncated file?)",
                  quote(entry.name, kShownName), entry.end, bytes);
    }
    position = entry.end;
  }
  if (position != bytes) throw Wrong("{} bytes follow the last tensor", bytes - position);
}

}  // namespace

const char* safetensors_dtype(torch::ScalarType type) {
  for (const Dtype& dtype : dtypes) {
    if (type == dtype.type) return dtype.name;
  }
  return nullptr;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes) {
  const json object = parse_header_json(text);
  SafetensorsHeader header;
  for (const auto& [name, value] : object.items()) {
    if (name == metadata_key) {
      header.metadata = parse_metadata(value);
    } else {
      header.entries.push_back(parse_entry(name, value));
    }
  }
  check_cover(header.entries, data_bytes);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  // Joined here: an ordered_json finds its members one by one.
  std::string text = "{";
  const auto add = [&text](const std::string& name, const Json& value) {
    if (text.size() > 1) text += ',';
    text += json(name).dump() + ':' + value.dump();
  };
  try {
    if (!header.metadata.empty()) add(metadata_key, header.metadata);
    for (const TensorEntry& entry : header.entries) {
      const char* dtype = safetensors_dtype(entry.type);
      if (entry.name == metadata_key) throw RunError("a tensor cannot be named {}", metadata_key);
      if (!dtype) {
        throw RunError("tensor {}: type {} is not supported", quote(entry.name, kShownName),
                       torch::toString(entry.type));
      }
      add(entry.name,
          {{"dtype", dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}});
    }
  } catch (const json::exception&) {
    throw RunError("a name or a metadata text is not UTF-8");
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace nsvq
