#include "nsvq/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/version.h"
#include "nsvq/io/file.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/manifest.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kModel = "model.safetensors";

/// N of a folder named step-N, or -1.
int64_t step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with("step-")) return -1;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

/// The file, compared with the manifest of its checkpoint if it lies in one.
fs::path undamaged(const fs::path& file) {
  if (const auto damage = damage_of_file(file)) {
    throw UserError(
        "{}: damaged ({}); name another checkpoint, or the run, whose newest undamaged "
        "one is then used",
        file.string(), *damage);
  }
  return file;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  AtomicFolder out(folder);
  write_safetensors(out.path() / kModel, {checkpoint.model,
                                          {{"format", "pt"},
                                           {"nsvq.version", kVersion},
                                           {"nsvq.step", std::to_string(checkpoint.at.step)},
                                           {"nsvq.epoch", std::to_string(checkpoint.at.epoch)},
                                           {"nsvq.config", to_yaml(checkpoint.config)}}});
  write_safetensors(out.path() / "training.safetensors", {checkpoint.training, {}});
  write_text(out.path() / "state.json", state_to_json(checkpoint.at, checkpoint.logs));
  write_manifest(out.path());
  out.commit();
}

Checkpoint load_checkpoint(const fs::path& folder) {
  Checkpoint checkpoint;
  const auto source = (folder / "state.json").string();
  std::tie(checkpoint.at, checkpoint.logs) = state_from_json(read_text(source), source);
  auto model = read_safetensors(folder / kModel);
  checkpoint.config = parse_config(model.metadata["nsvq.config"], folder.string());
  checkpoint.model = std::move(model.tensors);
  checkpoint.training = read_safetensors(folder / "training.safetensors").tensors;
  return checkpoint;
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

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  auto folders = list_checkpoints(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const auto damage = damage_of(*folder);
    if (!damage) return *folder;
    log("{}: damaged ({}), so it is passed over", folder->string(), *damage);
  }
  if (folders.empty()) return std::nullopt;
  throw UserError(
      "{}: all of its checkpoints are damaged; nothing was changed (to train anew, give --new or "
      "another --run)",
      run.string());
}

fs::path find_model(const fs::path& run_or_checkpoint) {
  if (fs::is_regular_file(run_or_checkpoint)) return undamaged(run_or_checkpoint);
  if (!fs::exists(run_or_checkpoint)) {
    throw UserError("{}: no such run, checkpoint or model file", run_or_checkpoint.string());
  }
  if (const auto newest = newest_checkpoint(run_or_checkpoint)) return *newest / kModel;
  const auto file = run_or_checkpoint / kModel;
  if (!fs::exists(file)) {
    throw UserError(
        "{}: holds neither checkpoints/step-N/ nor model.safetensors; has the run written a "
        "checkpoint yet?",
        run_or_checkpoint.string());
  }
  return undamaged(file);
}

LoadedModel load_model(const fs::path& run_or_checkpoint) {
  LoadedModel loaded;
  loaded.file = find_model(run_or_checkpoint);
  auto file = read_safetensors(loaded.file);
  const auto config = file.metadata.find("nsvq.config");
  if (config == file.metadata.end()) {
    throw UserError(
        "{}: carries no configuration (metadata 'nsvq.config'); was it written by nsvq?",
        loaded.file.string());
  }
  loaded.config = parse_config(config->second, loaded.file.string());
  loaded.metadata = std::move(file.metadata);
  loaded.tokenizer = Tokenizer(loaded.config);
  load_tensors(*loaded.tokenizer, file.tensors, loaded.file.string());
  loaded.tokenizer->eval();
  return loaded;
}

Progression load_progression(const fs::path& folder) {
  const auto path = (folder / "state.json").string();
  return state_from_json(read_text(path), path).first;
}

}  // namespace nsvq
