#include "nsvq/train/run_directory.h"

#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/file.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kMetrics = "metrics.jsonl";
constexpr auto kEvents = "events.out.tfevents.";

nlohmann::ordered_json line_of(const std::string& kind, const RunState& state,
                               const std::string& phase) {
  return {{"kind", kind}, {"step", state.step}, {"epoch", state.epoch}, {"phase", phase}};
}

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

/// Removes partially written checkpoints of a killed process, and event files other than `kept`.
void remove_leavings(const fs::path& run, const std::string& kept) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored)) {
    if (entry.path().filename().string().starts_with(".step-")) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(kEvents) && name != kept) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, const std::string& settings) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_ / "samples", error);
  if (!error) fs::create_directories(path_ / "checkpoints", error);
  if (error) throw UserError("{}: cannot be created ({})", path_.string(), error.message());
  auto lock = FolderLock::try_take(path_);
  if (!lock) {
    throw UserError(
        "{}: another process is training in this folder; wait for it or choose another "
        "with --run",
        path_.string());
  }
  lock_ = std::make_unique<FolderLock>(std::move(*lock));
  write_text(path_ / "config.yaml", settings);
}

RunDirectory RunDirectory::create(fs::path path, const std::string& settings) {
  if (fs::exists(path / "config.yaml")) {
    throw UserError("{}: already holds a run; choose another folder with --run or remove it",
                    path.string());
  }
  RunDirectory run(std::move(path), settings);
  run.events_ = std::make_unique<EventWriter>(run.path_);
  return run;
}

RunDirectory RunDirectory::resume(fs::path path, const std::string& settings,
                                  const std::optional<LogPosition>& position) {
  RunDirectory run(std::move(path), settings);
  const auto kept = position ? *position : LogPosition{};
  remove_leavings(run.path_, kept.events);
  const auto metrics = run.path_ / kMetrics, events = run.path_ / kept.events;
  if (size_of(metrics) > kept.metrics) fs::resize_file(metrics, kept.metrics);
  const bool events_there = position && size_of(events) >= kept.events_length;
  run.events_ = events_there ? std::make_unique<EventWriter>(events, kept.events_length)
                             : std::make_unique<EventWriter>(run.path_);
  return run;
}

LogPosition RunDirectory::position() const {
  return {size_of(path_ / kMetrics), events_->path().filename().string(), events_->length()};
}

void RunDirectory::record(const std::string& kind, const RunState& state, const std::string& phase,
                          const std::map<std::string, double>& values) {
  auto line = line_of(kind, state, phase);
  for (const auto& [name, value] : values) {
    line[name] = value;
    events_->scalar(kind + "/" + name, state.step, value);
  }
  append_line(path_ / kMetrics, line.dump());
  events_->flush();
}

void RunDirectory::record_phase(const RunState& state, const std::string& phase,
                                const std::string& reason) {
  auto line = line_of("phase", state, phase);
  line["reason"] = reason;
  record_text(line.dump(), "phase", state.step, phase + ": " + reason);
}

void RunDirectory::record_alarm(const RunState& state, const std::string& phase,
                                const std::string& sign, const std::string& reason) {
  auto line = line_of("alarm", state, phase);
  line["sign"] = sign;
  line["reason"] = reason;
  record_text(line.dump(), "alarm", state.step, reason);
}

void RunDirectory::record_text(const std::string& line, const std::string& tag, int64_t step,
                               const std::string& text) {
  append_line(path_ / kMetrics, line);
  events_->text(tag, step, text);
  events_->flush();
}

fs::path RunDirectory::save_samples(const RunState& state, const Image& grid) {
  const auto file = path_ / "samples" / fmt::format("epoch-{:04}.png", state.epoch);
  write_image(file, grid);
  events_->image("samples", state.step, grid);
  events_->flush();
  return file;
}

void RunDirectory::save(const Checkpoint& checkpoint, int64_t keep) {
  save_checkpoint(path_ / "checkpoints" / fmt::format("step-{}", checkpoint.state.step),
                  checkpoint);
  auto folders = list_checkpoints(path_);
  for (size_t i = 0; i + keep < folders.size(); ++i) {
    std::error_code error;
    fs::remove_all(folders[i], error);
    if (error) log("{}: cannot be removed ({})", folders[i].string(), error.message());
  }
}

fs::path newest_samples(const fs::path& run) {
  fs::path newest;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "samples", ignored)) {
    if (entry.path().extension() == ".png") newest = std::max(newest, entry.path());
  }
  return newest;
}

}  // namespace nsvq
