#include "nsvq/runs/layout/layout.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/tensorboard.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCheckpointPrefix = "step-";
constexpr std::string_view kSamplePrefix = "epoch-", kSampleSuffix = ".png";

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{}", kCheckpointPrefix, step); }

std::optional<int64_t> step_of_checkpoint(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  return parse_decimal(std::string_view(name).substr(kCheckpointPrefix.size()));
}

std::string sample_name(int64_t epoch) {
  return fmt::format("{}{:04}{}", kSamplePrefix, epoch, kSampleSuffix);
}

std::optional<int64_t> epoch_of_sample(const fs::path& file) {
  const auto name = file.filename().string();
  if (!name.starts_with(kSamplePrefix) || !name.ends_with(kSampleSuffix)) return std::nullopt;
  const auto digits = name.size() - kSamplePrefix.size() - kSampleSuffix.size();
  return parse_decimal(std::string_view(name).substr(kSamplePrefix.size(), digits));
}

bool is_event_file(const std::string& name) {
  return name.starts_with(kEventFilePrefix) && name.find('/') == std::string::npos;
}

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> folders;
  const auto all = run / kCheckpointsFolder;
  std::error_code error;
  if (fs::status(all, error).type() == fs::file_type::not_found) return folders;
  error.clear();
  for (const auto& entry : entries_of(all, error)) {
    if (step_of_checkpoint(entry.path())) folders.push_back(entry.path());
  }
  if (error) throw UserError("cannot read {}: {}", all.string(), error.message());
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    return step_of_checkpoint(a) < step_of_checkpoint(b);
  });
  return folders;
}

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kSettingsFile, ignored) || !list_checkpoints(folder).empty();
}

fs::path newest_samples(const fs::path& run) {
  fs::path newest;
  std::error_code ignored;
  for (const auto& entry : entries_of(run / kSamplesFolder, ignored)) {
    if (entry.path().extension() == ".png") newest = std::max(newest, entry.path());
  }
  return newest;
}

}  // namespace nsvq
