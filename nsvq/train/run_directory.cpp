#include "nsvq/train/run_directory.h"

#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

nlohmann::ordered_json line_of(const std::string& kind, const Progression& at,
                               const std::string& phase) {
  return {{"kind", kind}, {"step", at.step}, {"epoch", at.epoch}, {"phase", phase}};
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, const Config& config) : path_(std::move(path)) {
  if (fs::exists(path_ / "config.yaml")) {
    throw UserError("{}: already holds a run; choose another folder with --run or remove it",
                    path_.string());
  }
  std::error_code error;
  fs::create_directories(path_ / "samples", error);
  if (!error) fs::create_directories(path_ / "checkpoints", error);
  if (error) throw UserError("{}: cannot be created ({})", path_.string(), error.message());
  write_text(path_ / "config.yaml", to_yaml(config));
  events_ = std::make_unique<EventWriter>(path_);
}

void RunDirectory::record(const std::string& kind, const Progression& at, const std::string& phase,
                          const std::map<std::string, double>& values) {
  auto line = line_of(kind, at, phase);
  for (const auto& [name, value] : values) {
    line[name] = value;
    events_->scalar(kind + "/" + name, at.step, value);
  }
  append_line(path_ / "metrics.jsonl", line.dump());
  events_->flush();
}

void RunDirectory::record_phase(const Progression& at, const std::string& phase,
                                const std::string& reason) {
  auto line = line_of("phase", at, phase);
  line["reason"] = reason;
  append_line(path_ / "metrics.jsonl", line.dump());
  events_->text("phase", at.step, phase + ": " + reason);
  events_->flush();
}

fs::path RunDirectory::save_samples(const Progression& at, const Image& grid) {
  const auto file = path_ / "samples" / fmt::format("epoch-{:04}.png", at.epoch);
  write_image(file, grid);
  events_->image("samples", at.step, grid);
  events_->flush();
  return file;
}

void RunDirectory::save(const Checkpoint& checkpoint, int64_t keep) {
  save_checkpoint(path_ / "checkpoints" / fmt::format("step-{}", checkpoint.at.step), checkpoint);
  auto folders = list_checkpoints(path_);
  for (size_t i = 0; i + keep < folders.size(); ++i) {
    std::error_code error;
    fs::remove_all(folders[i], error);
    if (error) log("{}: cannot be removed ({})", folders[i].string(), error.message());
  }
}

fs::path free_run_path(const std::string& name) {
  fs::path path = fs::path("runs") / name;
  for (int n = 2; fs::exists(path); ++n) path = fs::path("runs") / fmt::format("{}-{}", name, n);
  return path;
}

}  // namespace nsvq
