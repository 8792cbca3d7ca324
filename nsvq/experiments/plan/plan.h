#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/experiments/spec/experiment.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// What the command line says about runs.
struct PlanOptions {
  std::string scale = "cpu";
  std::filesystem::path out = "reproduce";
  /// By name of an image set; "": all sets that are not named.
  std::map<std::string, Sources> train, val;
  std::vector<int64_t> seeds = {};     ///< replace the scale's; empty: those
  std::vector<std::string> rows = {};  ///< rows to run now; empty: all
  int gpus = 0;                        ///< GPUs of this machine
  bool allow_pipe = false;             ///< run commands that settings of stored runs name
};

/// Short runs that decide the value of a setting (PilotSpec).
struct PlannedPilots {
  std::string metric;
  std::vector<std::string> values;   ///< values of the setting
  std::vector<size_t> runs;          ///< indices of the pilots in the plan, one a value
  std::vector<std::string> recipes;  ///< recipes of the run that they decide about, one a value
};

/// A run with all its settings, in a folder whose name has a hash of them: equal runs of several
/// experiments are one.
struct PlannedRun {
  std::string name;   ///< in its experiment: "nsvq", "protected@10"
  std::string kind;   ///< a member of run_spec_kinds()
  std::string value;  ///< value of the setting that is varied
  int64_t seed = 0;
  int gpus = 1;        ///< GPUs that training uses, a process each
  bool alone = false;  ///< nothing runs beside it: its time is measured
  std::filesystem::path folder;
  std::string recipe;  ///< all settings, as YAML; empty for a run that only makes a file; with
                       ///< pilots that of their first value (RunView::recipe: the chosen one)
  std::vector<std::string> options;  ///< options of the command that makes a file
  Sources train, val;
  std::vector<std::string> metrics;  ///< metrics to measure at the end
  std::vector<size_t> needs;         ///< indices of runs that must be finished before, pilots too
  PlannedPilots pilots;              ///< without runs: none
  int64_t steps = 0;                 ///< training steps; 0: `epochs` counts
  int64_t epochs = 0;                ///< training epochs
  int64_t batch = 0;                 ///< images per step
  int64_t size = 0;                  ///< pixels of an image's side
  int64_t samples = 0;               ///< images that a generating model's evaluation samples
  bool wanted = true;                ///< chosen by PlanOptions::rows

  std::filesystem::path run() const { return folder / "run"; }
  std::filesystem::path figures() const { return folder / "eval.json"; }
  std::filesystem::path file() const { return folder / "codebook.safetensors"; }
};

/// A row of an experiment's table.
struct PlannedRow {
  std::string name, title, group, value;
  const RunSpec* spec = nullptr;
  std::vector<size_t> runs;  ///< indices in the plan, one a seed
};

struct PlannedExperiment {
  const Experiment* experiment = nullptr;
  std::vector<std::string> columns;
  std::vector<std::string> notes;               ///< what is left out, and why
  std::map<std::string, std::string> left_out;  ///< the notes about runs, by their names
  std::vector<PlannedRow> rows;
};

struct Plan {
  std::string scale;
  std::vector<PlannedRun> runs;  ///< each after those that it needs
  std::vector<PlannedExperiment> experiments;
};

}  // namespace nsvq
