#include "nsvq/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/report/curve_table.h"
#include "nsvq/report/html.h"
#include "nsvq/report/page_log.h"
#include "nsvq/report/samples.h"
#include "nsvq/runs/run_log.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

namespace fs = std::filesystem;
using PageJson = nlohmann::ordered_json;

namespace {

std::string text_of(const YamlValue& value) {
  std::string text;
  for (const auto& scalar : value.scalars) text += (text.empty() ? "" : ", ") + scalar.text;
  return value.kind == YamlValue::Kind::kList ? "[" + text + "]" : text;
}

/// A settings file that is longer is none that a run wrote.
constexpr uint64_t kLongestSettings = 1 << 20;

std::optional<std::string> read_settings(const fs::path& path) {
  try {
    const InputFile file(path);
    if (file.size() > kLongestSettings) return {};
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const UserError&) {
    return {};
  }
}

/// Why a file or folder of the run has nothing to show.
std::string absence(const fs::path& path, const fs::path& inside) {
  std::error_code error;
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  return path.filename().string() + (link && !lies_inside(path, inside)
                                         ? " is a link out of the folder, which is not followed"
                                         : " is missing");
}

void add_settings(PageJson& data, const fs::path& path, const fs::path& inside) {
  data["settings"] = PageJson::object();
  const auto text = lies_inside(path, inside) ? read_settings(path) : std::nullopt;
  if (!text) {
    data["notices"].push_back(absence(path, inside) + ": the settings of this run are not known.");
    return;
  }
  data["config"] = *text;
  try {
    for (const auto& setting : parse_yaml(*text, "config.yaml"))
      data["settings"][setting.key] = text_of(setting.value);
  } catch (const UserError& error) {
    data["notices"].push_back(std::string(error.what()) + ", so settings are not compared.");
  }
}

void add_pictures(PageJson& data, const PageRun& run, const PageLimits& limits) {
  auto pictures = PageJson::array();
  auto samples = find_samples(run.path);
  if (!samples.empty() && !lies_inside(run.path / "samples", limits.inside)) {
    samples.clear();
    data["notices"].push_back(absence(run.path / "samples", limits.inside) + ": no pictures.");
  } else if (samples.empty()) {
    data["notices"].push_back("samples/ has no epoch-NNNN.png: no pictures.");
  }
  const bool linked = !limits.picture_address.empty();
  const auto chosen = linked ? samples : chosen_samples(samples, limits.pictures);
  size_t bytes = 0, left_out = samples.size() - chosen.size();
  // From the last, which is the one not to be without.
  for (auto sample = chosen.rbegin(); sample != chosen.rend(); ++sample) {
    if (linked) {
      // The page keeps what it has loaded, so another picture has another address.
      pictures.push_back(
          {{"epoch", sample->epoch},
           {"source", fmt::format("{}{}&version={}", limits.picture_address, sample->epoch,
                                  file_stamp(sample->path, limits.inside))}});
      continue;
    }
    const auto png = read_sample(*sample);
    if (!png) {
      data["notices"].push_back(fmt::format("samples/{} cannot be shown: not a whole PNG.",
                                            sample->path.filename().string()));
    } else if (bytes > 0 && bytes + png->size() > limits.picture_bytes) {
      ++left_out;
    } else {
      bytes += png->size();
      pictures.push_back({{"epoch", sample->epoch}, {"source", data_uri("image/png", *png)}});
    }
  }
  std::reverse(pictures.begin(), pictures.end());
  data["pictures"] = pictures;
  data["pictures_left_out"] = left_out;
}

void add_metrics_notices(PageJson& notices, const RunLog& log) {
  if (log.unreadable > 0) {
    notices.push_back(
        fmt::format("{} of metrics.jsonl could not be read and {} left out.",
                    log.unreadable == 1 ? "1 line" : fmt::format("{} lines", log.unreadable),
                    log.unreadable == 1 ? "was" : "were"));
  }
  if (log.records.empty())
    notices.push_back("metrics.jsonl has no records yet.");
  else if (log.of_kind("eval").empty())
    notices.push_back("metrics.jsonl has no evaluation yet.");
}

std::optional<RunLog> log_if_there(const fs::path& path, const fs::path& inside) {
  try {
    if (lies_inside(path, inside)) return read_run_log(path);
  } catch (const UserError&) {
  }
  return {};
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

PageJson empty_page(const std::string& title, PageKind kind) {
  auto topics = PageJson::array();
  for (const CurveTopic& topic : known_curves()) topics.push_back(topic.title);
  return {{"title", title},
          {"live", kind == PageKind::live},
          {"topics", topics},
          {"runs", PageJson::array()}};
}

PageJson page_data(const PageRun& run, const PageLimits& limits) {
  const auto there = log_if_there(run.path / "metrics.jsonl", limits.inside);
  const RunLog log = there.value_or(RunLog{});
  PageJson data = {{"name", run.name}, {"state", run.state}, {"notices", PageJson::array()}};
  if (!run.problem.empty()) data["notices"].push_back(run.problem);
  if (there)
    add_metrics_notices(data["notices"], log);
  else
    data["notices"].push_back(absence(run.path / "metrics.jsonl", limits.inside) +
                              ": no results and no curves to show.");
  data.update(log_data(log, limits.points));
  add_settings(data, run.path / "config.yaml", limits.inside);
  add_pictures(data, run, limits);
  // Pictures of latent diffusion are no pairs of images and reconstructions.
  data["generated"] = !log.records.empty() && log.records.back().phase == "denoise";
  data["codes"] = run.codes ? codes_data(*run.codes) : PageJson(nullptr);
  data["no_codes"] = run.no_codes;
  return data;
}

PageJson codes_data(const CodeMap& map) {
  // Places as whole numbers: a map is some hundred pixels wide.
  const auto places = [](const std::vector<float>& values) {
    auto out = PageJson::array();
    for (const float value : values) out.push_back(std::lround(value * 4095));
    return out;
  };
  return {{"model", map.model},
          {"codes", map.codes},
          {"code", map.code},
          {"x", places(map.x)},
          {"y", places(map.y)},
          {"x_share", short_number(map.x_share)},
          {"y_share", short_number(map.y_share)},
          {"no_places", map.no_places},
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

std::string file_stamp(const fs::path& file, const fs::path& inside) {
  if (!lies_inside(file, inside)) return "-";
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) return "-";
  return fmt::format("{}.{}", size, fs::last_write_time(file, error).time_since_epoch().count());
}

bool lies_inside(const fs::path& path, const fs::path& folder) {
  if (folder.empty()) return true;
  std::error_code error;
  const auto root = fs::canonical(folder, error);
  if (error) return false;
  const auto place = fs::canonical(path, error);
  if (error) return false;
  return std::mismatch(root.begin(), root.end(), place.begin(), place.end()).first == root.end();
}

}  // namespace nsvq
