#include "nsvq/tokenizer/model_file.h"

#include <charconv>
#include <variant>

#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/nn/weights.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kFormatKey = "nsvq.format";

/// Makes a file of one format a file of the next.
using Conversion = void (*)(TensorFile&);

/// Format 0: the files of versions that wrote no format number. Tensors and settings are those of
/// format 1.
void from_format_0(TensorFile&) {}

/// Adds a setting to a model's configuration where the quantizer is of a type and nothing sets it.
void add_setting(TensorFile& file, const std::string& type, const std::string& key,
                 const std::string& value) {
  const auto config = file.metadata.find(kModelConfigKey);
  if (config == file.metadata.end()) return;
  bool of_type = false, set = false;
  for (const auto& setting : parse_yaml(config->second, kModelConfigKey)) {
    const auto& scalars = setting.value.scalars;
    if (setting.key == "quantizer.type") of_type = scalars.size() == 1 && scalars[0].text == type;
    set = set || setting.key == key;
  }
  if (of_type && !set) config->second += fmt::format("\n{}: {}\n", key, value);
}

/// Format 1: cvq searched by squared distance, and fvq had neither positions nor modulation.
/// Neither was a setting.
void from_format_1(TensorFile& file) {
  add_setting(file, "cvq", "quantizer.cvq.distance", "l2");
  add_setting(file, "fvq", "quantizer.bridge.variant", "vit");
}

/// At position n, the conversion from format n to n + 1.
constexpr Conversion kConversions[kModelFormat] = {from_format_0, from_format_1};

int format_of(const TensorFile& file, const fs::path& path) {
  const auto found = file.metadata.find(kFormatKey);
  if (found == file.metadata.end()) return 0;
  int format = -1;
  const auto& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), format);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && format >= 0 && format <= kModelFormat) return format;
  throw UserError("{}: model format {}, this nsvq reads formats up to {}; use a newer nsvq",
                  path.string(), text, kModelFormat);
}

}  // namespace

TensorFile model_contents(const TensorMap& tensors, const TokenizerConfig& config,
                          const std::map<std::string, std::string>& metadata) {
  TensorFile model{tensors,
                   {{"format", "pt"},
                    {kFormatKey, std::to_string(kModelFormat)},
                    {"nsvq.version", kVersion},
                    {kModelConfigKey, to_yaml(config)}}};
  model.metadata.insert(metadata.begin(), metadata.end());
  add_contents_hash(model);
  return model;
}

void write_model(const fs::path& file, const TensorMap& tensors, const TokenizerConfig& config,
                 const std::map<std::string, std::string>& metadata) {
  write_safetensors(file, model_contents(tensors, config, metadata));
}

void convert_to_present_format(TensorFile& file, const fs::path& path) {
  for (int format = format_of(file, path); format < kModelFormat; ++format) {
    kConversions[format](file);
  }
}

std::string model_sha256(const Tokenizer& tokenizer) {
  return tensors_sha256(named_tensors(*tokenizer));
}

namespace {

template <typename T>
Json to_json_value(const T& value) {
  if constexpr (std::is_same_v<T, Sources>) {
    if (value.items.size() == 1) return value.items[0];
    return value.items;
  } else {
    return value;
  }
}

}  // namespace

Json settings_to_json(const OptionTable& table) {
  auto json = Json::object();
  for (const auto& option : table.rows) {
    auto* node = &json;
    for (size_t start = 0; start != std::string::npos;) {
      const size_t dot = option.key.find('.', start);
      node = &(*node)[option.key.substr(start, dot - start)];
      start = dot == std::string::npos ? dot : dot + 1;
    }
    std::visit([node](const auto* field) { *node = to_json_value(*field); }, option.field);
  }
  return json;
}

}  // namespace nsvq
