#include "nsvq/experiments/run/reproduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/experiments/outcome/pages.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

Job job_of(const Plan& plan, size_t run, int threads) {
  const auto& planned = plan.runs.at(run);
  const auto& pilots = planned.pilots.runs;
  std::vector<size_t> needs;
  for (const size_t need : planned.needs) {
    if (std::find(pilots.begin(), pilots.end(), need) == pilots.end()) needs.push_back(need);
  }
  const auto next = [&plan, run, threads] {
    const RunView view(plan, run);
    auto words = next_command(view);
    if (!words.empty() && view.planned().wanted && view.trains()) {
      write_text(view.planned().folder / kReproducedRecipe, view.recipe());
    }
    const bool trains = std::find(words.begin(), words.end(), "train") != words.end();
    if (trains && threads > 0) words.push_back(fmt::format("threads={}", threads));
    return words;
  };
  return {planned.folder.filename().string(),
          planned.folder,
          needs,
          pilots,
          next,
          planned.wanted,
          planned.gpus,
          planned.alone};
}

ReproduceResult reproduce(const Plan& plan, const std::filesystem::path& out,
                          const ScheduleOptions& options) {
  std::vector<Job> jobs;
  for (size_t run = 0; run < plan.runs.size(); ++run)
    jobs.push_back(job_of(plan, run, options.threads));
  for (const auto& planned : plan.experiments) add_picture_jobs(plan, planned, out, jobs);
  const auto results = run_jobs(jobs, options);
  write_pages(plan, out, results);
  ReproduceResult result;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!results[i].problem.empty()) ++(i < plan.runs.size() ? result.failed : result.no_pictures);
    if (results[i].problem.empty() && !results[i].finished && jobs[i].wanted) ++result.left;
  }
  return result;
}

}  // namespace nsvq
