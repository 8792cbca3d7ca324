#include "nsvq/tokenizer/exchange/export_model.h"

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/pytorch_model.h"

namespace nsvq {

namespace fs = std::filesystem;

std::vector<fs::path> exported_files(const fs::path& file) {
  if (file.extension() != ".safetensors") {
    throw UserError("--out: {} does not end in .safetensors", file.string());
  }
  auto loader = fs::path(file).replace_filename("load_" + file.stem().string() + ".py");
  return {file, fs::path(file).replace_extension(".json"), std::move(loader)};
}

Json exported_settings(const LoadedModel& model) {
  TokenizerConfig config = model.config;  // a table binds to what it could change
  auto json = settings_to_json(option_table(config));
  json["nsvq"] = {{"version", kVersion},
                  {"sha256", model_sha256(model.tokenizer)},
                  {"stride", model.config.model.stride()}};
  return json;
}

std::string exported_loader() { return kPytorchModel; }

void export_model(const LoadedModel& model, const fs::path& file) {
  const auto files = exported_files(file);
  write_model(files[0], named_tensors(*model.tokenizer), model.config);
  write_text(files[1], exported_settings(model).dump(1) + "\n");
  write_text(files[2], exported_loader());
}

}  // namespace nsvq
