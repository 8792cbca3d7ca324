#include "nsvq/cli/info_latents.h"

#include <nlohmann/json.hpp>

#include "nsvq/cli/info_lines.h"
#include "nsvq/diffusion/latent_folder.h"

namespace nsvq {

void show_latents(const std::filesystem::path& folder, JsonOutput& output) {
  const auto manifest = read_latent_manifest(folder);
  nlohmann::ordered_json json = {
      {"latents", folder.string()},       {"shape", manifest.shape},
      {"images", manifest.images},        {"shards", manifest.shards},
      {"broken", manifest.broken.size()}, {"classes", manifest.classes.size()},
      {"source", manifest.source},        {"model_sha256", manifest.model_sha256}};
  print_values(json);
  json["class_names"] = manifest.classes;
  output.write(json);
}

}  // namespace nsvq
