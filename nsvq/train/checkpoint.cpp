#include "nsvq/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/file.h"
#include "nsvq/io/safetensors.h"

namespace nsvq {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kFormat = 1;

std::string to_json(const Progression& at) {
  return json{{"format", kFormat},          {"step", at.step},   {"epoch", at.epoch},
              {"batch", at.batch},          {"phase", at.phase}, {"phase_start", at.phase_start},
              {"commitment", at.commitment}}
      .dump(1);
}

/// N of a folder named step-N, or -1.
int64_t step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with("step-")) return -1;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  AtomicFolder out(folder);
  write_safetensors(out.path() / "model.safetensors",
                    {checkpoint.model,
                     {{"format", "pt"},
                      {"nsvq.version", kVersion},
                      {"nsvq.step", std::to_string(checkpoint.at.step)},
                      {"nsvq.epoch", std::to_string(checkpoint.at.epoch)},
                      {"nsvq.config", to_yaml(checkpoint.config)}}});
  write_safetensors(out.path() / "training.safetensors", {checkpoint.training, {}});
  write_text(out.path() / "state.json", to_json(checkpoint.at));
  out.commit();
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

fs::path find_model(const fs::path& run_or_checkpoint) {
  if (fs::is_regular_file(run_or_checkpoint)) return run_or_checkpoint;
  if (!fs::exists(run_or_checkpoint)) {
    throw UserError("{}: no such run, checkpoint or model file", run_or_checkpoint.string());
  }
  auto folder = run_or_checkpoint;
  if (const auto folders = list_checkpoints(folder); !folders.empty()) folder = folders.back();
  const auto file = folder / "model.safetensors";
  if (!fs::exists(file)) {
    throw UserError(
        "{}: holds neither checkpoints/step-N/ nor model.safetensors; has the run written a "
        "checkpoint yet?",
        run_or_checkpoint.string());
  }
  return file;
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
  const auto path = folder / "state.json";
  try {
    const auto state = json::parse(read_text(path));
    if (state.at("format") != kFormat) {
      throw UserError("{}: written in format {}, this nsvq reads {}", path.string(),
                      state.at("format").dump(), kFormat);
    }
    return {state.at("step"),  state.at("epoch"),       state.at("batch"),
            state.at("phase"), state.at("phase_start"), state.at("commitment")};
  } catch (const json::exception& error) {
    throw UserError("{}: not a checkpoint's state ({})", path.string(), error.what());
  }
}

}  // namespace nsvq
