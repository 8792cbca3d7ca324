#include "nsvq/experiments/outcome/pages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "nsvq/core/log.h"
#include "nsvq/experiments/outcome/pictures.h"
#include "nsvq/io/files/file.h"
#include "nsvq/report/page.h"
#include "nsvq/report/page_data.h"
#include "nsvq/report/report.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// The trained runs of an experiment's rows and of what these need, without pilots, for the page.
std::vector<PageRun> page_runs(const Plan& plan, const PlannedExperiment& planned) {
  std::set<size_t> wanted;
  for (const auto& row : planned.rows) wanted.insert(row.runs.begin(), row.runs.end());
  for (bool grown = true; grown;) {
    const auto before = wanted.size();
    for (const size_t run : std::vector(wanted.begin(), wanted.end())) {
      const auto& pilots = plan.runs[run].pilots.runs;
      for (const size_t need : plan.runs[run].needs) {
        if (std::find(pilots.begin(), pilots.end(), need) == pilots.end()) wanted.insert(need);
      }
    }
    grown = wanted.size() > before;
  }
  std::vector<PageRun> runs;
  std::error_code ignored;
  for (const size_t run : wanted) {
    const auto& planned_run = plan.runs[run];
    if (!fs::exists(planned_run.run(), ignored)) continue;
    runs.push_back(
        page_run(planned_run.run(), planned_run.folder.filename().string(), WithCodes::no));
    runs.back().no_codes = "The codebook is shown by `nsvq report` of a run.";
  }
  return runs;
}

/// Logs that a page of a different scale in this folder is replaced.
void note_changed_scale(const fs::path& file, const std::string& scale) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  const auto json = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("scale") || json["scale"] == scale) return;
  log("{}: was of scale {}, now of {} (--out names another folder)", file.string(),
      json["scale"].dump(), scale);
}

void write_experiment(const Plan& plan, const ExperimentOutcome& outcome, const fs::path& out) {
  const auto& experiment = *outcome.planned->experiment;
  note_changed_scale(out / (experiment.name + ".json"), plan.scale);
  auto data = empty_page(experiment.title, PageKind::whole);
  data["experiments"].push_back(outcome_page(outcome));
  const auto runs = page_runs(plan, *outcome.planned);
  const auto limits = limits_for(runs.size());
  for (const auto& run : runs) data["runs"].push_back(page_data(run, limits));
  write_text(out / (experiment.name + ".html"), html_page(data, false));
  write_text(out / (experiment.name + ".md"), outcome_markdown(outcome));
  write_text(out / (experiment.name + ".json"), outcome_json(outcome).dump(2) + "\n");
}

}  // namespace

void write_pages(const Plan& plan, const fs::path& out, const std::vector<JobResult>& results) {
  auto pictures = std::span(results).subspan(plan.runs.size());
  auto index = empty_page("Reproduction, scale " + plan.scale, PageKind::whole);
  for (const auto& planned : plan.experiments) {
    auto outcome = gather_outcome(plan, planned, results);
    add_pictures(plan, out, pictures, outcome);
    write_experiment(plan, outcome, out);
    index["experiments"].push_back(outcome_page(outcome));
    index["experiments"].back()["page"] = planned.experiment->name + ".html";
  }
  if (plan.experiments.size() > 1) write_text(out / "index.html", html_page(index, false));
}

}  // namespace nsvq
