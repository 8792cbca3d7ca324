#include "nsvq/tokenizer/model_file.h"

#include <algorithm>
#include <charconv>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/tensor_budget.h"
#include "nsvq/core/version.h"
#include "nsvq/core/yaml.h"
#include "nsvq/io/folder_checksums.h"
#include "nsvq/io/weights.h"
#include "nsvq/tokenizer/recipe.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kModelName = "model.safetensors";
constexpr auto kFormatKey = "nsvq.format";
constexpr auto kConfigKey = "nsvq.config";

/// Makes a file of one format a file of the next.
using Conversion = void (*)(TensorFile&);

/// Format 0: the files of versions that wrote no format number. Tensors and settings are those of
/// format 1.
void from_format_0(TensorFile&) {}

/// Adds a setting to a model's configuration where the quantizer is of a type and nothing sets it.
void add_setting(TensorFile& file, const std::string& type, const std::string& key,
                 const std::string& value) {
  const auto config = file.metadata.find(kConfigKey);
  if (config == file.metadata.end()) return;
  bool of_type = false, set = false;
  for (const auto& setting : parse_yaml(config->second, kConfigKey)) {
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

/// N of a folder named step-N, or -1.
int64_t step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with("step-")) return -1;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

/// A file that was named itself: nothing else is tried in its place.
fs::path require_undamaged(const fs::path& file) {
  if (const auto damage = file_damage(file)) {
    throw UserError(
        "{}: damaged ({}); name another checkpoint, or the run, whose newest undamaged "
        "one is then used",
        file.string(), *damage);
  }
  return file;
}

/// The newest undamaged model among the checkpoints of a run, or an empty path if there are no
/// checkpoints.
fs::path newest_model(const fs::path& run) {
  const auto folders = list_checkpoints(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const auto file = *folder / kModelName;
    const auto damage = file_damage(file);
    if (!damage) return file;
    log("{}: damaged ({}), trying the checkpoint before it", file.string(), *damage);
  }
  if (folders.empty()) return {};
  throw UserError("{}: the models of all its checkpoints are damaged", run.string());
}

/// The networks that the configuration of a file describes. Its numbers may ask for any size, so
/// memory is limited by the tensors that are there, with room for what initialising takes besides.
Tokenizer build_for(const TensorMap& tensors, const Config& config, const fs::path& path) {
  uint64_t stored = 0;
  for (const auto& [name, tensor] : tensors) stored += tensor.nbytes();
  const TensorBudget budget(
      8 * stored + (uint64_t{256} << 20),
      fmt::format(
          "{}: its configuration describes a model far larger than its {} bytes of tensors; "
          "is it damaged?",
          path.string(), stored));
  return Tokenizer(config);
}

}  // namespace

TensorFile model_contents(const TensorMap& tensors, const Config& config,
                          const std::map<std::string, std::string>& metadata) {
  TensorFile model{tensors,
                   {{"format", "pt"},
                    {kFormatKey, std::to_string(kModelFormat)},
                    {"nsvq.version", kVersion},
                    {kConfigKey, to_yaml(config)}}};
  model.metadata.insert(metadata.begin(), metadata.end());
  return model;
}

void write_model(const fs::path& file, const TensorMap& tensors, const Config& config,
                 const std::map<std::string, std::string>& metadata) {
  write_safetensors(file, model_contents(tensors, config, metadata));
}

TensorFile read_model_file(const fs::path& path) {
  auto file = read_safetensors(path);
  convert_to_present_format(file, path);
  return file;
}

void convert_to_present_format(TensorFile& file, const fs::path& path) {
  for (int format = format_of(file, path); format < kModelFormat; ++format) {
    kConversions[format](file);
  }
}

LoadedModel load_model(const fs::path& run_or_checkpoint) {
  LoadedModel loaded;
  loaded.file = find_model(run_or_checkpoint);
  auto file = read_model_file(loaded.file);
  const auto config = file.metadata.find(kConfigKey);
  if (config == file.metadata.end()) {
    throw UserError(
        "{}: carries no configuration (metadata 'nsvq.config'); was it written by nsvq?",
        loaded.file.string());
  }
  loaded.config = parse_config(config->second, loaded.file.string());
  loaded.tokenizer = build_for(file.tensors, loaded.config, loaded.file);
  load_tensors(*loaded.tokenizer, file.tensors, loaded.file.string());
  loaded.tokenizer->eval();
  return loaded;
}

fs::path find_model(const fs::path& run_or_checkpoint) {
  if (fs::is_regular_file(run_or_checkpoint)) return require_undamaged(run_or_checkpoint);
  if (!fs::exists(run_or_checkpoint)) {
    throw UserError("{}: no such run, checkpoint or model file", run_or_checkpoint.string());
  }
  if (const auto newest = newest_model(run_or_checkpoint); !newest.empty()) return newest;
  const auto file = run_or_checkpoint / kModelName;
  if (!fs::exists(file)) {
    throw UserError(
        "{}: holds neither checkpoints/step-N/ nor model.safetensors; has the run written a "
        "checkpoint yet?",
        run_or_checkpoint.string());
  }
  return require_undamaged(file);
}

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    if (step_of(entry.path()) >= 0) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(),
            [](const fs::path& a, const fs::path& b) { return step_of(a) < step_of(b); });
  return folders;
}

std::string model_sha256(const Tokenizer& tokenizer) {
  return tensors_sha256(named_tensors(*tokenizer));
}

}  // namespace nsvq
