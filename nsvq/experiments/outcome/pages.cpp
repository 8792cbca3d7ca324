#include "nsvq/experiments/outcome/pages.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <span>

#include "nsvq/core/log.h"
#include "nsvq/experiments/plan/run_settings.h"
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

namespace {

struct PlannedPicture {
  PictureOutcome outcome;
  std::vector<size_t> runs;  ///< indices in the plan
};

std::vector<PlannedPicture> planned_pictures(const Plan& plan, const PlannedExperiment& planned,
                                             const fs::path& out) {
  std::vector<PlannedPicture> pictures;
  for (const auto& spec : planned.experiment->pictures) {
    PlannedPicture picture{{spec.title.empty() ? spec.name : spec.title, {}, {"image"}}, {}};
    auto text = fmt::format("{} {}\n", spec.images, spec.enlarge);
    for (const auto& name : spec.runs) {
      for (const auto& row : planned.rows) {
        if (row.name != name || row.runs.empty()) continue;
        picture.runs.push_back(row.runs.front());
        picture.outcome.columns.push_back(row.title);
        text += plan.runs[row.runs.front()].folder.filename().string() + "\n";
      }
    }
    picture.outcome.file = out / "pictures" / fmt::format("{}-{}.png", spec.name, short_hash(text));
    if (picture.runs.size() >= 2) pictures.push_back(std::move(picture));
  }
  return pictures;
}

const PictureSpec& spec_of(const PlannedExperiment& planned, const std::string& title) {
  for (const auto& spec : planned.experiment->pictures) {
    if (spec.title == title || spec.name == title) return spec;
  }
  return planned.experiment->pictures.front();
}

}  // namespace

void add_picture_jobs(const Plan& plan, const PlannedExperiment& planned, const fs::path& out,
                      std::vector<Job>& jobs) {
  for (const auto& picture : planned_pictures(plan, planned, out)) {
    const auto& spec = spec_of(planned, picture.outcome.title);
    std::vector<std::string> words = {"compare"};
    for (const size_t run : picture.runs) words.push_back(plan.runs[run].run().string());
    const auto file = picture.outcome.file;
    words.insert(words.end(), {"--out", file.string(), "--pictures", std::to_string(spec.images),
                               "--enlarge", std::to_string(spec.enlarge), "--spread", "--transpose",
                               "--metrics", "psnr", "--data"});
    const auto& images = plan.runs[picture.runs.front()].val.items;
    words.insert(words.end(), images.begin(), images.end());
    const bool wanted = std::all_of(picture.runs.begin(), picture.runs.end(),
                                    [&](size_t run) { return plan.runs[run].wanted; });
    jobs.push_back({file.filename().string(),
                    file.parent_path(),
                    picture.runs,
                    {},
                    [file, words] {
                      std::error_code ignored;
                      return fs::exists(file, ignored) ? std::vector<std::string>{} : words;
                    },
                    wanted});
  }
}

void add_pictures(const Plan& plan, const fs::path& out, std::span<const JobResult>& results,
                  ExperimentOutcome& outcome) {
  std::error_code ignored;
  for (auto& picture : planned_pictures(plan, *outcome.planned, out)) {
    const auto problem = results.empty() ? "" : results.front().problem;
    if (!results.empty()) results = results.subspan(1);
    if (!problem.empty()) {
      outcome.notes.push_back(fmt::format("no picture '{}': {}", picture.outcome.title, problem));
    }
    if (fs::exists(picture.outcome.file, ignored)) {
      outcome.pictures.push_back(std::move(picture.outcome));
    }
  }
}

}  // namespace nsvq
