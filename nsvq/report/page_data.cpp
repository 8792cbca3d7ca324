#include "nsvq/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/report/chart.h"
#include "nsvq/report/curves.h"
#include "nsvq/report/page.h"
#include "nsvq/report/samples.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/verdict.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

namespace fs = std::filesystem;
namespace {

std::string text_of(const YamlValue& value) {
  std::string text;
  for (const auto& scalar : value.scalars) text += (text.empty() ? "" : ", ") + scalar.text;
  return value.kind == YamlValue::Kind::kList ? "[" + text + "]" : text;
}

/// The longest settings file: no run writes a longer one.
constexpr uint64_t kLongestSettings = 1 << 20;

std::optional<std::string> read_settings(const fs::path& path) {
  try {
    const InputFile file(path);
    if (file.size() > kLongestSettings) return std::nullopt;
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void add_settings(Json& data, const fs::path& path) {
  data["settings"] = Json::object();
  data["generated"] = false;  // pictures are pairs of images and reconstructions
  const auto text = read_settings(path);
  if (!text) {
    data["notices"].push_back(
        fmt::format("{} is missing: the settings of this run are not known.", kSettingsFile));
    return;
  }
  data["config"] = *text;
  try {
    const auto settings = parse_yaml(*text, kSettingsFile);
    for (const auto& setting : settings) data["settings"][setting.key] = text_of(setting.value);
    data["generated"] = !run_kind(kind_of_settings(settings)).reconstructs;
  } catch (const UserError& error) {
    data["notices"].push_back(std::string(error.what()) + ", so settings are not compared.");
  }
}

/// The newest pictures whose bytes fit, in the order of their epochs.
Json pictures_inside(const std::vector<SampleFile>& samples, size_t most_bytes, Json& data) {
  auto pictures = Json::array();
  size_t bytes = 0;
  for (auto sample = samples.rbegin(); sample != samples.rend(); ++sample) {
    const auto png = read_sample(*sample);
    if (!png) {
      data["notices"].push_back(fmt::format("{}/{} cannot be shown: not a whole PNG.",
                                            kSamplesFolder, sample->path.filename().string()));
    } else if (bytes > 0 && bytes + png->size() > most_bytes) {
      data["pictures_left_out"] = data["pictures_left_out"].get<size_t>() + 1;
    } else {
      bytes += png->size();
      pictures.push_back({{"epoch", sample->epoch}, {"source", data_uri("image/png", *png)}});
    }
  }
  std::reverse(pictures.begin(), pictures.end());
  return pictures;
}

/// Pictures that the page fetches; it keeps one as long as its `version` is the same.
Json fetched_pictures(const std::vector<SampleFile>& samples) {
  auto pictures = Json::array();
  for (const auto& [epoch, path] : samples)
    pictures.push_back({{"epoch", epoch}, {"version", file_stamp(path)}});
  return pictures;
}

void add_pictures(Json& data, const fs::path& run, const PageLimits& limits) {
  const auto samples = find_samples(run);
  if (samples.empty()) {
    data["notices"].push_back(
        fmt::format("{}/ has no epoch-NNNN.png: no pictures.", kSamplesFolder));
  }
  data["pictures_left_out"] = 0;
  if (limits.fetched_pictures) {
    data["pictures"] = fetched_pictures(samples);
    return;
  }
  const auto chosen = chosen_samples(samples, limits.pictures);
  data["pictures_left_out"] = samples.size() - chosen.size();
  data["pictures"] = pictures_inside(chosen, limits.picture_bytes, data);
}

void add_metrics_notices(Json& notices, const RunLog& log) {
  if (log.unreadable > 0) {
    notices.push_back(
        fmt::format("{} of {} could not be read and {} left out.",
                    log.unreadable == 1 ? "1 line" : fmt::format("{} lines", log.unreadable),
                    kMetricsFile, log.unreadable == 1 ? "was" : "were"));
  }
  if (log.records.empty())
    notices.push_back(fmt::format("{} has no records yet.", kMetricsFile));
  else if (log.of_kind("eval").empty())
    notices.push_back(fmt::format("{} has no evaluation yet.", kMetricsFile));
}

std::optional<RunLog> log_if_there(const fs::path& path) {
  try {
    return read_run_log(path);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

PageLimits limits_for(size_t runs) {
  PageLimits limits;
  runs = std::max<size_t>(runs, 1);
  limits.points = std::clamp<size_t>(8000 / runs, 200, 2000);
  limits.pictures = std::clamp<size_t>(48 / runs, 1, 24);
  limits.picture_bytes /= runs;
  return limits;
}

Json empty_page(const std::string& title, PageKind kind) {
  auto topics = Json::array();
  for (const CurveTopic& topic : known_curves()) topics.push_back(topic.title);
  return {{"title", title},
          {"live", kind == PageKind::live},
          {"topics", topics},
          {"runs", Json::array()}};
}

Json page_data(const PageRun& run, const PageLimits& limits) {
  const auto there = log_if_there(run.path / kMetricsFile);
  const RunLog log = there.value_or(RunLog{});
  Json data = {{"name", run.name}, {"state", run.state}, {"notices", Json::array()}};
  if (!run.problem.empty()) data["notices"].push_back(run.problem);
  if (there)
    add_metrics_notices(data["notices"], log);
  else
    data["notices"].push_back(
        fmt::format("{} is missing: no results and no curves to show.", kMetricsFile));
  data.update(log_data(log, limits.points));
  const auto verdict = verdict_of_run(run.path, log, run.state == "finished");
  data["verdict"] = {{"word", verdict.word}, {"text", verdict.text}};
  add_settings(data, run.path / kSettingsFile);
  add_pictures(data, run.path, limits);
  data["codes"] = run.codes ? codes_data(*run.codes) : Json(nullptr);
  data["no_codes"] = run.no_codes;
  return data;
}

Json codes_data(const CodeMap& map) {
  // Coordinates as whole numbers: a map is some hundred pixels wide.
  const auto coordinates = [](const std::vector<float>& values) {
    auto out = Json::array();
    for (const float value : values) out.push_back(std::lround(value * 4095));
    return out;
  };
  return {{"model", map.model},
          {"codes", map.codes},
          {"code", map.code},
          {"x", coordinates(map.x)},
          {"y", coordinates(map.y)},
          {"x_share", short_number(map.x_share)},
          {"y_share", short_number(map.y_share)},
          {"no_map", map.no_map},
          {"epoch", map.epoch},
          {"height", map.grid_height},
          {"width", map.grid_width},
          {"tokens", map.tokens},
          {"no_tokens", map.no_tokens}};
}

std::string run_name(const fs::path& run) {
  fs::path path = fs::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

std::string file_stamp(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) return "-";
  return fmt::format("{}.{}", size, fs::last_write_time(file, error).time_since_epoch().count());
}

}  // namespace nsvq
