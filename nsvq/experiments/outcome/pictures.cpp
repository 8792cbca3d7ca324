#include "nsvq/experiments/outcome/pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/experiments/plan/settings_layers.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

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
