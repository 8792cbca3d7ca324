#include "nsvq/tokenizer/open_model.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

bool is_missing(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() == fs::file_type::not_found;
}

/// The file's contents, or what is damaged about it. Throws UserError for a file that cannot be
/// opened: it may well be whole.
struct ReadModel {
  ModelFile file;
  std::string damage;
  bool unreadable = false;  ///< no safetensors file, by `damage`
};

ReadModel read_model(const fs::path& path) {
  ReadModel read{{path, {}}, ""};
  { const InputFile opened(path); }
  try {
    read.file.contents = read_safetensors(path);
  } catch (const UserError& error) {
    const auto damage = file_damage(path);
    return {{path, {}}, damage ? *damage : error.what(), !damage};
  }
  auto& contents = read.file.contents;
  if (!has_contents_hash(contents.metadata)) {
    read.damage = file_damage(path).value_or("");
  } else if (!contents_hash_matches(contents)) {
    read.damage = "does not hold what was written, by its sha256";
  } else {
    read.damage = file_replaced(path).value_or("");  // by the model of another checkpoint
  }
  if (read.damage.empty()) convert_to_present_format(contents, path);
  return read;
}

/// A model file that the user named: no other file is tried instead.
ModelFile read_named(const fs::path& path) {
  auto read = read_model(path);
  if (read.damage.empty()) return std::move(read.file);
  if (read.unreadable) throw UserError("{}", read.damage);
  throw UserError(
      "{}: damaged ({}); copy it again, or name another checkpoint, or the run, whose newest "
      "undamaged one is then used",
      path.string(), read.damage);
}

/// The checkpoint that a run's checkpoints/best names.
fs::path marked_checkpoint(const fs::path& marker) {
  auto name = read_text(marker);
  if (name.ends_with('\n')) name.pop_back();
  if (!step_of_checkpoint(name) || name != fs::path(name).filename())
    throw UserError("{}: names no checkpoint (step-N)", marker.string());
  return marker.parent_path() / name;
}

/// The newest undamaged model among a run's checkpoints.
ModelFile read_newest(const fs::path& run, const std::vector<fs::path>& checkpoints) {
  for (auto folder = checkpoints.rbegin(); folder != checkpoints.rend(); ++folder) {
    const auto path = *folder / kModelFile;
    auto read = is_missing(path) ? ReadModel{{path, {}}, "missing"} : read_model(path);
    if (read.damage.empty()) return std::move(read.file);
    log("{}: damaged ({}), trying the checkpoint before it", path.string(), read.damage);
  }
  throw UserError("{}: the models of all its checkpoints are damaged", run.string());
}

/// A name under which training puts runs, or an empty text: runs/photos for photos.
std::string hint_at_runs(const fs::path& named) {
  std::error_code ignored;
  const auto run = fs::path(kRunsFolder) / named;
  const bool there = named.is_relative() && fs::is_directory(run / kCheckpointsFolder, ignored);
  return there ? fmt::format("; did you mean {}?", run.string()) : "";
}

/// Whether folders of runs lie in a folder.
bool has_runs_in_it(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : entries_of(folder, ignored)) {
    if (fs::is_directory(entry.path() / kCheckpointsFolder, ignored)) return true;
  }
  return false;
}

uint64_t bytes_in(const TensorMap& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

ModelFile open_model_file(const fs::path& named) {
  if (is_missing(named)) {
    throw UserError("{}: no such run, checkpoint or model file{}", named.string(),
                    hint_at_runs(named));
  }
  std::error_code ignored;
  if (named.filename() == kBestFile && fs::is_regular_file(named, ignored)) {
    return open_model_file(marked_checkpoint(named));
  }
  if (!fs::is_directory(named, ignored)) return read_named(named);
  if (const auto checkpoints = list_checkpoints(named); !checkpoints.empty()) {
    return read_newest(named, checkpoints);
  }
  if (is_missing(named / kModelFile)) {
    if (has_runs_in_it(named)) {
      throw UserError("{0}: a folder of runs; name one of them (nsvq runs {0} lists them)",
                      named.string());
    }
    if (!usual_weights(named).empty()) {
      throw UserError("{0}: another program's weights; `nsvq import {0}` makes a model of them",
                      named.string());
    }
    throw UserError(
        "{}: holds neither checkpoints/step-N/ nor model.safetensors; has the run written a "
        "checkpoint yet?",
        named.string());
  }
  return read_named(named / kModelFile);
}

uint64_t memory_for(const TensorMap& tensors) {
  constexpr uint64_t initialising = uint64_t{256} << 20;  // takes memory besides
  return 8 * bytes_in(tensors) + initialising;
}

TensorBudget budget_of(const ModelFile& file) {
  return {memory_for(file.contents.tensors),
          fmt::format(
              "{}: its configuration describes a model far larger than its {} bytes of tensors; "
              "is it damaged?",
              file.path.string(), bytes_in(file.contents.tensors))};
}

LoadedModel load_model(const fs::path& run_or_checkpoint) {
  const auto file = open_model_file(run_or_checkpoint);
  const auto& metadata = file.contents.metadata;
  const auto config = metadata.find(kModelConfigKey);
  if (config == metadata.end() && metadata.contains(kDiffusionConfigKey)) {
    throw UserError("{}: a diffusion model, which `nsvq diffusion` samples, not a tokenizer",
                    file.path.string());
  }
  if (config == metadata.end() && metadata.contains(kGeneratorConfigKey)) {
    throw UserError("{}: a generator of tokens, which `nsvq generate` samples, not a tokenizer",
                    file.path.string());
  }
  if (config == metadata.end()) {
    throw UserError(
        "{0}: carries no configuration (metadata 'nsvq.config'), so nsvq has not written it; "
        "another program's becomes a model by `nsvq import {0}`",
        file.path.string());
  }
  LoadedModel loaded;
  loaded.file = file.path;
  loaded.config = parse_config(config->second, file.path.string());
  {
    const auto budget = budget_of(file);
    const SeedGuard apart;
    loaded.tokenizer = Tokenizer(loaded.config);
  }
  load_tensors(*loaded.tokenizer, file.contents.tensors, file.path.string());
  require_finite(named_tensors(*loaded.tokenizer), file.path.string());
  loaded.tokenizer->eval();
  return loaded;
}

}  // namespace nsvq
