#include "nsvq/report/live_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/files/lock.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/report/page.h"
#include "nsvq/report/report.h"
#include "nsvq/report/samples.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"

namespace nsvq {

namespace fs = std::filesystem;
namespace {

/// Whether a file or folder, its links followed, is inside `folder`.
bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code error, root_error;
  const auto target = fs::canonical(path, error), root = fs::canonical(folder, root_error);
  return !error && !root_error &&
         std::mismatch(root.begin(), root.end(), target.begin(), target.end()).first == root.end();
}

/// A link of a run, or the run itself, that leads out of `folder`, or a link to a folder, whose
/// files could; empty if there is none.
fs::path link_out(const fs::path& run, const fs::path& folder) {
  if (!is_inside(run, folder)) return run;
  std::error_code error;
  fs::recursive_directory_iterator entry(run, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != end(entry); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) &&
        (entry->is_directory(ignored) || !is_inside(entry->path(), folder)))
      return entry->path();
  }
  return {};
}

/// Changes with the files of the run that the page shows.
std::string version_of(const fs::path& run) {
  const auto samples = find_samples(run);
  return fmt::format("{}/{}/{}.{}/{}", file_stamp(run / kMetricsFile),
                     file_stamp(run / kSettingsFile), samples.size(),
                     samples.empty() ? "" : file_stamp(samples.back().path),
                     FolderLock::held(run) ? "running" : "");
}

}  // namespace

LiveRuns::LiveRuns(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    throw UserError("{}: no such folder; name one with runs in it or below", folder_.string());
}

std::map<std::string, fs::path> LiveRuns::all() const try {
  std::map<std::string, fs::path> named;
  for (const auto& run : find_runs(folder_)) {
    const auto name = run.lexically_relative(folder_).string();
    named[name.empty() || name == "." ? run_name(run) : name] = run;
  }
  return named;
} catch (const std::exception&) {  // a folder that goes away while it is read
  return {};
}

/// Names come from requests, so they are compared with those of the runs and never made a path.
std::optional<fs::path> LiveRuns::find(const std::string& name) const {
  const auto runs = all();
  const auto run = runs.find(name);
  if (run == runs.end() || !link_out(run->second, folder_).empty()) return std::nullopt;
  return run->second;
}

std::string LiveRuns::page() const {
  const auto name = run_name(folder_);  // "." has one
  return html_page(empty_page(name.empty() ? folder_.string() : name, PageKind::live), false);
}

std::string LiveRuns::list() const {
  auto shown = Json::array(), notes = Json::array();
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    notes.push_back(fmt::format("{}: this folder is no longer there.", folder_.string()));
  for (const auto& [name, run] : all()) {
    if (const auto link = link_out(run, folder_); !link.empty())
      notes.push_back(fmt::format("{} is a link out of the folder or to a folder: {} is not shown.",
                                  link.lexically_relative(folder_).string(), name));
    else
      shown.push_back({{"name", name}, {"version", version_of(run)}});
  }
  return script_json({{"runs", shown}, {"notes", notes}});
}

std::optional<std::string> LiveRuns::run(const std::string& name) const {
  const auto found = find(name);
  if (!found) return std::nullopt;
  auto limits = limits_for(all().size());
  limits.fetched_pictures = true;
  const auto version = version_of(*found);  // before the files are read: they may grow meanwhile
  auto data = page_data(page_run(*found, name, WithCodes::no), limits);
  data["version"] = version;
  // Tells a run from a later one of the same name.
  data["began"] = file_stamp(*found / kSettingsFile);
  return script_json(data);
}

std::optional<std::string> LiveRuns::codes(const std::string& name) const {
  static std::mutex one_model;  // in memory at a time
  const auto found = find(name);
  if (!found) return std::nullopt;
  const std::lock_guard guard(one_model);
  PageRun run{*found, name, "", {}, ""};
  add_codes(run);
  return script_json(run.codes ? codes_data(*run.codes) : Json{{"no_codes", run.no_codes}});
}

std::optional<std::string> LiveRuns::picture(const std::string& name, int64_t epoch) const {
  const auto found = find(name);
  if (!found) return std::nullopt;
  const auto png = read_sample({epoch, *found / kSamplesFolder / sample_name(epoch)});
  if (!png) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(png->data()), png->size());
}

}  // namespace nsvq
