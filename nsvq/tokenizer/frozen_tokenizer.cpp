#include "nsvq/tokenizer/frozen_tokenizer.h"

#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

LoadedModel load_frozen_tokenizer(const std::string& path, const std::string& key) {
  if (path.empty()) {
    throw UserError(
        "{0} is not set; name a tokenizer's run, checkpoint or model file ({0}=runs/NAME)", key);
  }
  try {
    return load_model_for_inference(path);
  } catch (const UserError& error) {
    throw UserError("{}: {}", key, error.what());
  }
}

void freeze_on(LoadedModel& model, c10::Device device) {
  for (const auto& parameter : model.tokenizer->parameters()) parameter.set_requires_grad(false);
  model.tokenizer->eval();
  move_to_device(model.tokenizer, model.config, device);
}

LoadedModel find_tokenizer(const fs::path& file, const TokenizerReference& reference,
                           const std::string& named) {
  const auto beside = file.parent_path() / kExportedTokenizer;
  std::error_code ignored;
  const auto path = !named.empty()                ? fs::path(named)
                    : fs::exists(beside, ignored) ? beside
                                                  : fs::path(reference.path);
  try {
    return load_model_for_inference(path);
  } catch (const UserError& error) {
    throw UserError("{}: its tokenizer: {}; name it with --tokenizer", file.string(), error.what());
  }
}

void require_tokenizer(const TokenizerReference& named, const TokenizerReference& trained_on,
                       const std::string& key, const std::string& from) {
  if (named.sha256 == trained_on.sha256) return;
  throw UserError(
      "{}: {} is not the tokenizer that {} was trained on ({}), by its weights; name that one, or "
      "start a new run",
      key, named.path, from, trained_on.path);
}

void require_tokenizer(const TokenizerReference& opened, const TokenizerReference& trained_on,
                       const fs::path& file) {
  if (opened.sha256 == trained_on.sha256) return;
  throw UserError("{}: not the tokenizer that {} was trained on ({}), by its weights", opened.path,
                  file.string(), trained_on.path);
}

void export_frozen_tokenizer(const LoadedModel& tokenizer, const fs::path& folder) {
  const auto beside = folder / kExportedTokenizer;
  std::error_code error;
  fs::create_directories(beside, error);
  if (error) throw RunError("cannot make {}: {}", beside.string(), error.message());
  write_model(beside / kModelFile, named_tensors(*tokenizer.tokenizer), tokenizer.config);
  auto settings = tokenizer.config;  // a table binds to what it could change
  write_text(beside / "config.json", settings_to_json(option_table(settings)).dump(1) + "\n");
}

TorchSettings sampling_torch_settings(const RunConfig& config, c10::Device device,
                                      int64_t threads) {
  return {.threads = threads,
          .deterministic = true,
          .tf32_convolutions = precision_on(config, device) != Precision::fp32,
          .inference = true};
}

}  // namespace nsvq
