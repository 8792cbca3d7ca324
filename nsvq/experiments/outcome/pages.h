#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/scheduler.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

/// Writes for each experiment of a plan OUT/NAME.html, NAME.md and NAME.json of what is finished so
/// far, and of several experiments OUT/index.html. `results` are those of the plan's runs, then of
/// pictures.
void write_pages(const Plan& plan, const std::filesystem::path& out,
                 const std::vector<JobResult>& results);

/// An experiment's outcome as Markdown: table with the paper's figures, rank correlations, claims.
std::string outcome_markdown(const ExperimentOutcome& outcome);
/// An experiment's outcome as numbers, for programs.
Json outcome_json(const ExperimentOutcome& outcome);
/// outcome_json with the texts of cells, charts and pictures, for nsvq/report/page/experiments.js.
Json outcome_page(const ExperimentOutcome& outcome);

/// Adds a job for each of the experiment's pictures: `nsvq compare` of the first seeds. The jobs
/// before are those of the plan's runs. The picture's name has a hash of the runs and its settings.
void add_picture_jobs(const Plan& plan, const PlannedExperiment& planned,
                      const std::filesystem::path& out, std::vector<Job>& jobs);

/// Adds the pictures that are there, and notes on those that failed. `results` begin with those of
/// the experiment's pictures, in the order of their jobs, which are removed from it.
void add_pictures(const Plan& plan, const std::filesystem::path& out,
                  std::span<const JobResult>& results, ExperimentOutcome& outcome);

}  // namespace nsvq
