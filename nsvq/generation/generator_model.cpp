#include "nsvq/generation/generator_model.h"

#include <optional>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kGeneratorFormat = "1";
constexpr auto kGeneratorFormatKey = "nsvq.generator.format";
constexpr auto kGeneratorTokenizerKey = "nsvq.generator.tokenizer";
constexpr auto kGeneratorTokenizerHashKey = "nsvq.generator.tokenizer.sha256";
constexpr auto kGeneratorHeightKey = "nsvq.generator.height";
constexpr auto kGeneratorWidthKey = "nsvq.generator.width";
constexpr auto kGeneratorCodesKey = "nsvq.generator.codes";

}  // namespace

TensorFile generator_contents(const TensorMap& tensors, const GeneratorDescription& description,
                              const std::map<std::string, std::string>& metadata) {
  const auto& grid = description.grid;
  TensorFile file{tensors,
                  {{"format", "pt"},
                   {"nsvq.version", kVersion},
                   {kGeneratorFormatKey, kGeneratorFormat},
                   {kGeneratorConfigKey, to_yaml(description.config)},
                   {kGeneratorHeightKey, std::to_string(grid.height)},
                   {kGeneratorWidthKey, std::to_string(grid.width)},
                   {kGeneratorCodesKey, std::to_string(grid.codes)},
                   {kGeneratorTokenizerKey, description.tokenizer.path},
                   {kGeneratorTokenizerHashKey, description.tokenizer.sha256}}};
  file.metadata.insert(metadata.begin(), metadata.end());
  add_contents_hash(file);
  return file;
}

bool is_generator(const TensorFile& file) { return file.metadata.contains(kGeneratorConfigKey); }

GeneratorDescription generator_metadata(const TensorFile& file, const std::string& from) {
  for (const auto& kind : run_kinds()) {
    if (kind.kind == RunKind::generator || !file.metadata.contains(kind.settings_key)) continue;
    throw UserError("{}: a model of {}, where a generator of tokens is asked for", from,
                    kind.command);
  }
  const auto text = [&](const char* key) {
    const auto found = file.metadata.find(key);
    if (found != file.metadata.end()) return found->second;
    throw UserError("{}: no generator of tokens (metadata '{}' is missing)", from, key);
  };
  const auto number = [&](const char* key) {
    const auto found = parse_decimal(text(key));
    if (found && *found > 0 && *found <= int64_t{1} << 30) return *found;
    throw UserError("{}: metadata '{}' is {}; is it damaged?", from, key, quote(text(key)));
  };
  if (const auto format = text(kGeneratorFormatKey); format != kGeneratorFormat) {
    throw UserError("{}: generator of format {}, this nsvq reads format {}; use a newer nsvq", from,
                    format, kGeneratorFormat);
  }
  GeneratorDescription description;
  description.config = parse_config<GenerationConfig>(text(kGeneratorConfigKey), from);
  description.grid = {number(kGeneratorHeightKey), number(kGeneratorWidthKey),
                      number(kGeneratorCodesKey), description.config.classes};
  description.tokenizer = {text(kGeneratorTokenizerKey), text(kGeneratorTokenizerHashKey)};
  return description;
}

LoadedGenerator load_generator(const fs::path& run_or_checkpoint) {
  const auto file = open_model_file(run_or_checkpoint);
  const auto from = file.path.string();
  LoadedGenerator loaded{generator_metadata(file.contents, from), nullptr, file.path};
  {
    const auto budget = budget_of(file);
    const SeedGuard apart;
    loaded.generator = make_generator(loaded.config.generator, loaded.grid);
  }
  load_tensors(*loaded.generator, file.contents.tensors, from);
  require_finite(named_tensors(*loaded.generator), from);
  loaded.generator->eval();
  return loaded;
}

void move_to_device(Generator& generator, const GenerationConfig& config, c10::Device device) {
  generator.to(device);
  generator.precision = precision_on(config, device);
}

void export_generator(const LoadedGenerator& generator, const LoadedModel* tokenizer,
                      const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder, ignored)) {
    throw UserError("--out {}: exists already; name a new folder", folder.string());
  }
  AtomicFolder out(folder);
  auto settings = generator.config;  // a table binds to what it could change
  auto json = settings_to_json(option_table(settings));
  json["nsvq"] = {{"version", kVersion},
                  {"grid", {generator.grid.height, generator.grid.width}},
                  {"codes", generator.grid.codes},
                  {"tokenizer_sha256", generator.tokenizer.sha256}};
  write_safetensors(out.path() / kModelFile,
                    generator_contents(named_tensors(*generator.generator), generator));
  write_text(out.path() / "config.json", json.dump(1) + "\n");
  if (tokenizer) export_frozen_tokenizer(*tokenizer, out.path());
  out.commit();
}

}  // namespace nsvq
