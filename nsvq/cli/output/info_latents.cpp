#include "nsvq/cli/output/info_latents.h"

#include <nlohmann/json.hpp>

#include "nsvq/cli/output/info_lines.h"
#include "nsvq/diffusion/latent_folder.h"

namespace nsvq {

void show_latents(const std::filesystem::path& folder, JsonOutput& output) {
  const auto manifest = read_latent_manifest(folder);
  nlohmann::ordered_json json = {
      {"latents", folder.string()}, {"images", manifest.images}, {"broken", manifest.broken.size()},
      {"shards", manifest.shards},  {"shape", manifest.shape},   {"model", manifest.model_sha256},
      {"data", manifest.source}};
  print_values(json);
  print_classes(manifest.classes);
  json["classes"] = manifest.classes;
  output.write(json);
}

}  // namespace nsvq
