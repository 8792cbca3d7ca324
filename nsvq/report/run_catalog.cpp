#include "nsvq/report/run_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/folder_entries.h"
#include "nsvq/io/files/lock.h"
#include "nsvq/report/page.h"
#include "nsvq/report/run_page.h"
#include "nsvq/report/samples.h"
#include "nsvq/runs/run_folder.h"
#include "nsvq/runs/run_list.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace fs = std::filesystem;
using CatalogJson = nlohmann::ordered_json;

namespace {

/// A log of a million lines takes seconds to read: while it grows, it is read again after so many
/// times as long.
constexpr int kRest = 20;

/// Other text once a file of the run that the page shows has changed.
std::string version_of(const fs::path& run, const fs::path& folder) {
  const auto samples = find_samples(run);
  return fmt::format("{}/{}/{}.{}/{}", file_stamp(run / kMetricsFile, folder),
                     file_stamp(run / kSettingsFile, folder), samples.size(),
                     samples.empty() ? "" : file_stamp(samples.back().path, folder),
                     FolderLock::held(run) ? "running" : "");
}

/// Likewise of the files that a map of its codes is made from.
std::string codes_version_of(const fs::path& run, const fs::path& folder) {
  const auto checkpoints = list_checkpoints(run);
  const auto samples = find_samples(run);
  std::string version = "codes of ";  // not the empty one of a new entry
  if (!checkpoints.empty()) {
    const auto model = checkpoints.back() / "model.safetensors";
    version += model.string() + file_stamp(model, folder);
  }
  if (!samples.empty()) {
    const auto& [epoch, path] = samples.back();
    version += fmt::format("/{}.{}", epoch, file_stamp(path, folder));
  }
  return version;
}

std::string for_address(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

/// The models and the pictures that a map of the codes is made from.
bool codes_lie_inside(const fs::path& run, const fs::path& folder) {
  return std::ranges::all_of(
             find_samples(run),
             [&](const auto& sample) { return lies_inside(sample.path, folder); }) &&
         std::ranges::all_of(list_checkpoints(run), [&](const fs::path& checkpoint) {
           return lies_inside(checkpoint / "model.safetensors", folder);
         });
}

/// Whether what tells a run's state would be read from outside the folder.
bool state_leads_out(const fs::path& run, const fs::path& folder) {
  std::vector<fs::path> files = {run / kSettingsFile, run / kMetricsFile};
  std::error_code error;
  for (const auto& checkpoint : list_checkpoints(run))
    for (const auto& entry : entries_of(checkpoint, error)) files.push_back(entry.path());
  return std::ranges::any_of(files, [&](const fs::path& file) {
    return fs::exists(fs::symlink_status(file, error)) && !lies_inside(file, folder);
  });
}

PageRun run_inside(const fs::path& run, const std::string& name, const fs::path& folder) {
  if (!state_leads_out(run, folder)) return page_run(run, name, WithCodes::no);
  return {run, name, FolderLock::held(run) ? "running" : "", {}, ""};
}

}  // namespace

RunCatalog::RunCatalog(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    throw UserError("{}: no such folder; name one with runs in it or below", folder_.string());
}

std::vector<fs::path> RunCatalog::found() const {
  try {
    return find_runs(folder_);
  } catch (const std::exception&) {  // a folder that goes away while it is read
    return {};
  }
}

std::vector<fs::path> RunCatalog::runs() const {
  auto all = found();
  std::erase_if(all, [&](const fs::path& run) { return !lies_inside(run, folder_); });
  return all;
}

std::string RunCatalog::name_of(const fs::path& run) const {
  const auto name = run.lexically_relative(folder_).string();
  return name.empty() || name == "." ? run_name(run) : name;
}

/// Names come from requests, so they are compared with those of the runs and never made a path.
std::optional<fs::path> RunCatalog::find(const std::string& name) const {
  for (auto& run : runs())
    if (name_of(run) == name) return run;
  return {};
}

std::shared_ptr<RunCatalog::Entry> RunCatalog::entry_of(const std::string& name) {
  const std::lock_guard guard(mutex_);
  auto& entry = entries_[name];
  if (!entry) entry = std::make_shared<Entry>();
  return entry;
}

std::string RunCatalog::version_to_serve(const fs::path& run, const Entry& entry) const {
  const bool rests = !entry.data.empty() && Clock::now() - entry.made < kRest * entry.cost;
  return rests ? entry.version : version_of(run, folder_);
}

std::string RunCatalog::list() {
  auto all = CatalogJson::array(), notes = CatalogJson::array();
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    notes.push_back(fmt::format("{}: this folder is no longer there.", folder_.string()));
  for (const auto& run : found()) {
    const auto name = name_of(run);
    if (!lies_inside(run, folder_)) {
      notes.push_back(fmt::format("{}: a link out of the folder, which is not followed.", name));
      continue;
    }
    const auto entry = entry_of(name);
    const std::lock_guard guard(mutex_);
    all.push_back({{"name", name}, {"version", version_to_serve(run, *entry)}});
  }
  return script_json({{"runs", all}, {"notes", notes}});
}

std::optional<std::string> RunCatalog::run(const std::string& name) {
  const auto all = runs();
  const auto found =
      std::ranges::find_if(all, [&](const auto& one) { return name_of(one) == name; });
  if (found == all.end()) return {};
  const auto entry = entry_of(name);
  const std::lock_guard making(entry->making);
  std::string version;
  {
    const std::lock_guard guard(mutex_);
    version = version_to_serve(*found, *entry);
    if (version == entry->version) return entry->data;
  }
  const auto began = Clock::now();
  auto limits = limits_for(all.size());
  limits.inside = folder_;
  limits.picture_address = "picture?run=" + for_address(name) + "&epoch=";
  auto data = page_data(run_inside(*found, name, folder_), limits);
  data["version"] = version;
  // By it the page tells a run from another that has taken its name.
  data["began"] = file_stamp(*found / kSettingsFile, folder_);
  auto text = script_json(data);
  const std::lock_guard guard(mutex_);
  entry->version = version;
  entry->data = std::move(text);
  entry->made = Clock::now();
  entry->cost = entry->made - began;
  return entry->data;
}

std::optional<std::string> RunCatalog::codes(const std::string& name) {
  const auto found = find(name);
  if (!found) return {};
  const auto entry = entry_of(name);
  const std::lock_guard one_model(models_);
  PageRun run{*found, name, "", {}, ""};
  try {
    const auto version = codes_version_of(*found, folder_);
    if (version == entry->codes_version) return entry->codes;
    if (codes_lie_inside(*found, folder_))
      add_codes(run);
    else
      run.no_codes = "A file of the run's model or pictures is a link out of the folder.";
    entry->codes_version = version;
  } catch (const UserError& error) {
    run.no_codes = error.what();
  }
  entry->codes =
      script_json(run.codes ? codes_data(*run.codes) : CatalogJson{{"no_codes", run.no_codes}});
  return entry->codes;
}

std::optional<std::vector<std::byte>> RunCatalog::picture(const std::string& name,
                                                          int64_t epoch) const {
  const auto found = find(name);
  if (!found) return {};
  for (const SampleFile& sample : find_samples(*found)) {
    if (sample.epoch == epoch && lies_inside(sample.path, folder_)) return read_sample(sample);
  }
  return {};
}

}  // namespace nsvq
