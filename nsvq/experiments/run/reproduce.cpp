#include "nsvq/experiments/run/reproduce.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/outcome/pages.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/plan/run_view.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/processes/spawn.h"
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

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMostTime = std::chrono::minutes(2);

/// The status of a process; nullopt if it had to be ended.
std::optional<int> wait_for(const LoggedProcess& process) {
  const auto began = Clock::now();
  while (true) {
    if (const auto status = process.status()) return status;
    if (Clock::now() - began > kMostTime) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  process.signal(SIGKILL);
  while (!process.status()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return std::nullopt;
}

/// Seconds of a step by a recipe. Throws RunError with the reason why there are none.
double time_recipe(const std::string& recipe, const std::string& program) {
  const TemporaryFolder folder;
  const auto file = folder / "recipe.yaml", figures = folder / "step.json";
  write_text(file, recipe);
  const LoggedProcess process(
      program,
      {"bench", "step", file.string(), "--step-only", "--rounds", "10", "--json", figures.string()},
      {}, folder / "log.txt");
  const auto status = wait_for(process);
  if (!status) throw RunError("ten steps take more than two minutes");
  if (*status != 0) throw RunError("{}", process.reason(*status));
  return read_json(figures).at("milliseconds").get<double>() / 1e3;
}

}  // namespace

StepTimes time_steps(const Plan& plan, const std::string& program,
                     const std::function<void(const std::string&)>& say) {
  const auto runs = runs_to_time(plan);
  StepTimes times;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& run = plan.runs[runs[i]];
    say(fmt::format("timing ten steps of {} ({} of {}; --no-timing leaves it out)", run.name, i + 1,
                    runs.size()));
    try {
      times[speed_key(run)] = time_recipe(run.recipe, program);
    } catch (const RunError& error) {
      say(fmt::format("{} is not timed: {}", run.name, error.what()));
    }
  }
  return times;
}

}  // namespace nsvq
