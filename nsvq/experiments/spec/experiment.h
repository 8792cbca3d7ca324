#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/recipe/run_kind.h"

namespace nsvq {

// An experiment is data: a YAML file of configs/experiments/ or a user's own (docs/reproduce.md has
// the keys). Everything below is what such a file says; plan.h makes runs of it.

/// What a run of an experiment can be.
struct RunSpecKind {
  std::string name;
  std::optional<RunKind> trains;
  std::vector<std::string> train;  ///< words of the command that trains it; empty: nothing to train
  std::vector<std::string> make;   ///< words of the command that makes its file
};

const std::vector<RunSpecKind>& run_spec_kinds();

/// Whether runs of this kind train a model; others make a file.
bool is_trained(const std::string& kind);
/// Whether runs of this kind train a model of `trained`.
bool trains(const std::string& kind, RunKind trained);
/// What runs of this kind train, which train a model.
RunKind trained_by(const std::string& kind);

/// Sizes at which an experiment can be run. `test` is for tests of the program.
inline constexpr std::array<std::string_view, 4> kScales = {"paper", "gpu", "cpu", "test"};

/// Whether figures of a scale are set beside the paper's: `test` trains for seconds.
constexpr bool compares_with_paper(std::string_view scale) { return scale != "test"; }

/// A setting whose value short runs decide: each row is tried with each of the values, and trained
/// with the best one.
struct PilotSpec {
  std::string key;                  ///< the setting; empty: no pilots
  std::vector<std::string> values;  ///< its values, one a pilot
  std::vector<std::string> set;     ///< key=value of pilots alone
  std::string metric = "psnr";      ///< the metric that decides
};

/// What holds for all runs of an experiment at one scale.
struct ScaleSpec {
  bool given = false;
  std::vector<std::string> over;     ///< recipes laid over each tokenizer's own, in order
  std::vector<std::string> set;      ///< key=value for tokenizers, over those recipes
  std::vector<int64_t> seeds = {0};  ///< every run once for each
  std::vector<std::string> columns;  ///< replaces the experiment's; empty: those
  int64_t samples = 5000;            ///< images that a generating model is evaluated on
  PilotSpec pilot;                   ///< for tokenizers that are rows
  std::string about;                 ///< what the scale is, for the page
};

/// What one scale changes in a run.
struct RunAtScale {
  std::vector<std::string> set;
  std::vector<std::string> values;  ///< replaces the run's; empty: those
  std::vector<int64_t> seeds;       ///< replaces the scale's; empty: those
  std::string recipe;               ///< replaces the run's; empty: that
  std::string skip;                 ///< why the run is left out; empty: it is not
};

/// What a run can vary besides settings: the number of GPUs that it is trained on. Numbers above
/// those of the machine are left out.
inline constexpr auto kGpus = "gpus";

/// A row of the table: one run for each seed, or, with `vary`, for each value and seed.
struct RunSpec {
  std::string name, title;
  std::string kind = "tokenizer";            ///< a member of run_spec_kinds()
  std::string recipe;                        ///< a path
  std::vector<std::string> over;             ///< recipes laid over it and the scale, in order
  std::vector<std::string> set;              ///< key=value over all of them; options of a codebook
  std::map<std::string, std::string> needs;  ///< setting -> the run whose folder is its value
  std::string vary;                          ///< a setting, or kGpus
  std::vector<std::string> values;           ///< its values
  bool row = true;                           ///< false: a run that only others need
  bool extra = false;                        ///< a row that `*` in claims leaves out
  std::vector<std::string> only;             ///< scales that have the run; empty: all
  std::map<std::string, double> paper;       ///< the paper's figure by column
  std::map<std::string, RunAtScale> scales;
};

/// The value that a run's pilots have chosen, as a figure.
inline constexpr auto kChosenByPilots = "pilot.chosen";

/// A column of the table that is not a metric of the registry.
struct FigureSpec {
  std::string name, title;
  std::string of;             ///< "drift.churn": a kind of line of metrics.jsonl and a key in it;
                              ///< or kChosenByPilots
  std::string take = "last";  ///< first, last, mean, median, min or max of the values
  std::string phase;          ///< the phase whose lines count; empty: all
  std::string relative_to;    ///< run to divide by (its row of equal value, if it varies
                              ///< something); empty: none
  std::string better = "lower";
  std::string unit;
  double scale = 1;
  int64_t decimals = 3;
};

struct ChartSpec {
  std::string name, title;
  std::string kind = "curves";    ///< curves over steps, or a sweep over the values of `vary`
  std::vector<std::string> y;     ///< FigureSpec::of for curves, columns for a sweep: a chart each
  std::vector<std::string> runs;  ///< runs drawn; empty: all rows
  bool apart = false;             ///< a chart for each run instead of a line
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
};

/// Images beside their reconstructions by several runs.
struct PictureSpec {
  std::string name, title;
  std::vector<std::string> runs;  ///< columns, after the images themselves
  int64_t images = 6;             ///< evenly spread over the validation images
  int64_t enlarge = 1;
};

struct ClaimSpec {
  std::string name, text;
  std::vector<std::string> holds;   ///< comparisons (comparison.h), all of which must be true
  std::vector<std::string> scales;  ///< scales at which it is tested; empty: all
};

struct Experiment {
  std::string name;  ///< the file's
  std::filesystem::path file;
  std::string title, about;
  std::string data = "images";     ///< name of the image set, for --data NAME=SOURCE
  std::string validation = "own";  ///< images to evaluate on: "own", or "training"
  std::vector<std::string> columns;
  std::map<std::string, ScaleSpec> scales;
  std::deque<RunSpec> runs;
  std::deque<FigureSpec> figures;
  std::deque<ChartSpec> charts;
  std::deque<PictureSpec> pictures;
  std::deque<ClaimSpec> claims;

  const RunSpec* find_run(std::string_view name) const;        ///< null if there is none
  const FigureSpec* find_figure(std::string_view name) const;  ///< null if there is none
};

/// Reads an experiment. Throws UserError in one line with file, line and key.
Experiment read_experiment(const std::filesystem::path& file);
Experiment parse_experiment(const std::string& text, const std::filesystem::path& file);

}  // namespace nsvq
