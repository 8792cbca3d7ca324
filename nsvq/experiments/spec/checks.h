#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/experiments/spec/experiment.h"

namespace nsvq {

/// Throws UserError for what does not fit together in an experiment: unknown names, a run without a
/// recipe, runs that need each other. Fills in titles that are left out, and makes paths of those
/// relative to the file.
void check_experiment(Experiment& experiment);

/// Throws UserError for figures, charts, pictures and claims that cannot be made of the runs.
void check_shown(const Experiment& experiment);

/// Throws UserError for missing recipes.
void require_recipes(const Experiment& experiment);

/// A message about a key of the experiment's file.
template <typename... Args>
UserError wrong_key(const Experiment& experiment, const std::string& key,
                    fmt::format_string<Args...> format, Args&&... args) {
  return UserError("{}: {}: {}", experiment.file.string(), key,
                   fmt::format(format, std::forward<Args>(args)...));
}

/// Throw UserError for a name that the experiment does not have.
void require_run(const Experiment& experiment, const std::string& key, const std::string& name);
void require_column(const Experiment& experiment, const std::string& key, const std::string& name);
/// Throws UserError for a name that cannot be part of a file's name.
void check_name(const Experiment& experiment, const std::string& key, const std::string& name);

/// Throws UserError for a list that has a value twice.
template <typename Value>
void refuse_twice(const Experiment& experiment, const std::string& key,
                  const std::vector<Value>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::find(values.begin(), values.begin() + i, values[i]) == values.begin() + i) continue;
    throw wrong_key(experiment, key, "{} is named twice", values[i]);
  }
}

}  // namespace nsvq
