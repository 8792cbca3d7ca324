#include "nsvq/tokenizer/export_model.h"

#include <variant>

#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

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

fs::path export_model(const LoadedModel& model, const fs::path& file) {
  if (file.extension() != ".safetensors") {
    throw UserError("--out: {} does not end in .safetensors", file.string());
  }
  TokenizerConfig config = model.config;  // a table binds to what it could change
  auto json = settings_to_json(option_table(config));
  json["nsvq"] = {{"version", kVersion},
                  {"sha256", model_sha256(model.tokenizer)},
                  {"stride", model.config.model.stride()}};
  write_model(file, named_tensors(*model.tokenizer), model.config);
  const auto beside = fs::path(file).replace_extension(".json");
  write_text(beside, json.dump(1) + "\n");
  return beside;
}

}  // namespace nsvq
