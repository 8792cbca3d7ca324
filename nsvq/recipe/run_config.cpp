#include "nsvq/recipe/run_config.h"

#include <filesystem>

#include "nsvq/core/device.h"

namespace nsvq {

std::vector<Option> run_options(RunConfig& run) {
  return {
      {"seed", &run.seed, "seed of everything random in a run", Range::at_least(0)},
      {"device", &run.device, "where to compute; auto: the GPU if there is one",
       Range::one_of({"auto", "cpu", "cuda"}, {{"gpu", "cuda"}, {"cuda:0", "cuda"}}), kNotOnResult},
      {"threads", &run.threads,
       "CPU threads for computing; 0: OMP_NUM_THREADS or, where it is not set, all cores",
       Range::between(0, kMostThreads), kNotOnResult},
  };
}

void change_paths(const OptionTable& table,
                  const std::function<std::string(const std::string&)>& change) {
  for (const auto& row : table.rows) {
    if (const auto* sources = std::get_if<Sources*>(&row.field)) {
      for (auto& item : (*sources)->items) item = change_source(item, change);
    } else if (row.range.path) {
      auto& path = *std::get<std::string*>(row.field);
      if (!path.empty()) path = change(path);
    }
  }
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

bool equal_training_files(const OptionTable& here, const OptionTable& there) {
  for (size_t i = 0; i < here.rows.size(); ++i) {
    const auto& row = here.rows[i];
    const bool files = row.range.path || std::holds_alternative<Sources*>(row.field);
    // data.val is not trained on, and checkpoints hold the features.
    const bool trains = row.key != "data.val" && row.key != "quantizer.features.file";
    if (!files || !trains) continue;
    if (row.value() != there.rows.at(i).value()) return false;
  }
  return true;
}

}  // namespace nsvq
