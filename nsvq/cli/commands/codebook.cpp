#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/core/version.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/weights.h"
#include "nsvq/ops/code_statistics/spectrum.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/replacement/kmeans.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/tokenizer/vector_sample.h"

namespace nsvq {

namespace {

struct CodebookArguments {
  ModelArguments model;
  std::string out;
  JsonArgument json;
  int64_t codes = 0;
  int64_t iterations = 20;
  int64_t vectors = 1 << 20;
  uint64_t seed = 0;
  // features
  std::string net = kUsualFeatureNet;
  int size = 128;
  int64_t grid = 4;
};

void declare_clustering(CLI::App& app, CodebookArguments& arguments) {
  app.add_option("--out", arguments.out, "FILE.safetensors")
      ->required()
      ->type_name("FILE")
      ->check([](const std::string& name) {
        return name.ends_with(".safetensors") ? "" : "end the name in .safetensors";
      });
  app.add_option("--iterations", arguments.iterations, "iterations of k-means")
      ->check(CLI::Range(int64_t{0}, int64_t{100000}))
      ->capture_default_str();
  app.add_option("--vectors", arguments.vectors,
                 "cluster at most N vectors; a random sample over all images")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "seed of the sample and of k-means")
      ->capture_default_str();
  declare_json_argument(app, arguments.json);
}

void require_enough(int64_t vectors, int64_t codes) {
  if (vectors >= codes) return;
  throw UserError(
      "--codes: {}, but {} to cluster; raise --vectors, name more images or fewer "
      "codes",
      count_of(codes, "code"), count_of(vectors, "vector"));
}

/// Prints the settings; `of_an_image` is the number of vectors per image.
void announce(const CodebookArguments& arguments, const std::string& of, int64_t codes,
              int64_t of_an_image, const Source& source, c10::Device device) {
  require_enough(std::min(arguments.vectors, of_an_image * source.size()), codes);
  fmt::print(
      "vectors      {}\n"
      "data         {}, {}\n"
      "codes        {}\n"
      "k-means      {} on at most {}, seed {}\n"
      "device       {}\n",
      of, arguments.model.data.text(), count_of(source.size(), "image"), codes,
      count_of(arguments.iterations, "iteration"), count_of(arguments.vectors, "vector"),
      arguments.seed, device.str());
  flush_stdout();  // before the progress bar
}

/// Root mean square of the norms of rows [n, d]. Per row first: an fp32 sum over all elements on a
/// CPU would lose precision.
double root_mean_square_norm(const torch::Tensor& rows) {
  return rows.norm(2, 1).to(at::kDouble).square().mean().sqrt().item<double>();
}

/// Root mean square of the elements of rows [n, d].
double root_mean_square(const torch::Tensor& rows) {
  return root_mean_square_norm(rows) / std::sqrt(static_cast<double>(rows.size(1)));
}

/// Clusters vectors [n, d] and writes the centres [codes, d] as tensor `name`.
void cluster(const torch::Tensor& vectors, int64_t codes, const std::string& name,
             const CodebookArguments& arguments, std::map<std::string, std::string> metadata,
             JsonOutput& output) {
  require_enough(vectors.size(0), codes);  // fewer than announced if images are broken
  Progress progress("k-means", arguments.iterations, "iterations");
  const auto centres = kmeans(vectors, codes, arguments.iterations, arguments.seed,
                              [&](int64_t done) { progress.update(done); });
  progress.finish();
  const auto indices = nearest_indices(vectors, centres, {}, NonFinite::error);
  const double error = root_mean_square(centres.index_select(0, indices) - vectors);
  const auto used = std::get<0>(at::_unique(indices)).numel();
  const auto of_vectors = directions_of(vectors), of_codes = directions_of(centres);
  const auto participation = participation_text(of_vectors.participation, of_codes.participation);
  // Names of files need not be UTF-8; a header must be.
  metadata.insert({{"format", "pt"},
                   {"nsvq.version", kVersion},
                   {"nsvq.data", printable(arguments.model.data.text())},
                   {"nsvq.vectors", std::to_string(vectors.size(0))},
                   {"nsvq.iterations", std::to_string(arguments.iterations)},
                   {"nsvq.seed", std::to_string(arguments.seed)}});
  write_safetensors(arguments.out, {{{name, centres.cpu()}}, metadata});
  fmt::print("{}: {} [{}, {}] of {}, mean squared error {:.6g}, {} used{}{}\n", arguments.out, name,
             codes, centres.size(1), count_of(vectors.size(0), "vector"), error * error,
             count_of(used, "code"), participation.empty() ? "" : ", ", participation);
  output.write({{"file", arguments.out},
                {"tensor", name},
                {"codes", codes},
                {"dimension", centres.size(1)},
                {"vectors", vectors.size(0)},
                {"iterations", arguments.iterations},
                {"seed", arguments.seed},
                {"mean_squared_error", error * error},
                {"quantization_error", error},
                {"centroid_distance", centroid_distance(vectors, indices, centres)},
                {"codes_used", used},
                {"vectors_participation", of_vectors.participation},
                {"codes_participation", of_codes.participation},
                {"vectors_spectrum", of_vectors.shares},
                {"codes_spectrum", of_codes.shares}});
}

void run_kmeans(const CodebookArguments& arguments) {
  check_output_files({{"--out", arguments.out}}, arguments.json.force,
                     {{"--json", arguments.json.file}});
  JsonOutput output(arguments.json);
  ModelOnData opened(arguments.model);
  if (arguments.codes == 0) opened.session.require_tokens();
  auto& tokenizer = opened.session.tokenizer();
  const int64_t codes = arguments.codes > 0 ? arguments.codes : tokenizer->quantizer->codes();
  const auto file = opened.session.file().string();
  require_distinct({{"MODEL", file}, {"--out", arguments.out}});
  const int64_t side = opened.options.transform.size / opened.session.stride();
  announce(arguments, "latents of " + file, codes, side * side, *opened.source,
           opened.session.device());
  const VectorSample sample{
      "latents",
      [&](const torch::Tensor& images) { return flatten_latents(tokenizer->to_latents(images)); },
      arguments.vectors, arguments.seed};
  const auto vectors = sample.draw(opened.source, opened.options, opened.session.device());
  cluster(vectors, codes, "codebook", arguments, {{"nsvq.model", printable(file)}}, output);
}

/// The network's last activation of images [B, 3, H, W] in [-1, 1], its positions averaged to a
/// grid of patches: [B * grid * grid, channels].
std::function<torch::Tensor(const torch::Tensor&)> patch_features(
    const CodebookArguments& arguments, c10::Device device) {
  const auto& kind = feature_net_kind(arguments.net);
  kind.require_side("--size", arguments.size);
  const auto weights = load_weights(kind.weights);
  if (!weights.official) {
    log("{}: the stored {} ({}) are not the official values", kind.name, kind.weights,
        weights.source);
  }
  const auto net = kind.make();
  load_parameters(*net, weights.tensors, "weights " + kind.weights);
  net->to(device);
  const auto shift = per_channel(kImageShift, device), scale = per_channel(kImageScale, device);
  return [=, grid = arguments.grid](const torch::Tensor& images) {
    const auto map = net->features((images - shift) / scale).back();
    const int64_t side = std::min(map.size(2), map.size(3));
    if (grid > side) {
      throw UserError("--grid: {} patches a side, but {} gives {} at this --size", grid, kind.name,
                      side);
    }
    return flatten_latents(at::adaptive_avg_pool2d(map, {grid, grid}));
  };
}

/// Vectors [n, d], centred and scaled to a mean square norm of 1. Activations are positive and
/// large: their projections would be close together and far from all latents, and few codes be
/// used.
torch::Tensor standardised(torch::Tensor vectors) {
  vectors.sub_(vectors.mean(0));
  const double length = root_mean_square_norm(vectors);
  if (length > 0) vectors.div_(length);
  return vectors;
}

void run_features(const CodebookArguments& arguments) {
  check_output_files({{"--out", arguments.out}}, arguments.json.force,
                     {{"--json", arguments.json.file}});
  JsonOutput output(arguments.json);
  const TorchFlags flags({});
  const auto device = choose_device(arguments.model.device);
  const std::shared_ptr<const Source> source =
      limited(open_source(arguments.model.data), arguments.model.limit);
  const VectorSample sample{"features", patch_features(arguments, device), arguments.vectors,
                            arguments.seed};
  LoaderOptions options;
  options.transform.size = arguments.size;
  options.shuffle = false;
  if (arguments.model.batch_size > 0) options.batch_size = arguments.model.batch_size;
  const auto of = fmt::format("{} of {} pixels, {}x{} patches of an image", arguments.net,
                              arguments.size, arguments.grid, arguments.grid);
  announce(arguments, of, arguments.codes, arguments.grid * arguments.grid, *source, device);
  const auto vectors = standardised(sample.draw(source, options, device));
  cluster(vectors, arguments.codes, "features", arguments,
          {{"nsvq.net", arguments.net},
           {"nsvq.size", std::to_string(arguments.size)},
           {"nsvq.grid", std::to_string(arguments.grid)}},
          output);
}

}  // namespace

void declare_codebook(CLI::App& app) {
  app.require_subcommand(1);
  const auto codes_range = CLI::Range(int64_t{1}, kMostCodes);

  const auto latents = std::make_shared<CodebookArguments>();
  auto* kmeans =
      app.add_subcommand("kmeans", "cluster the latents of images into a codebook [K, d]");
  declare_model_arguments(*kmeans, latents->model);
  kmeans
      ->add_option("--codes", latents->codes,
                   "number of codes K (default: the model's, if it has any)")
      ->check(codes_range);
  declare_clustering(*kmeans, *latents);
  kmeans->callback([latents] { run_kmeans(*latents); });

  const auto patches = std::make_shared<CodebookArguments>();
  std::vector<std::string> nets;
  for (const auto& kind : feature_net_kinds()) nets.push_back(kind.name);
  auto* features = app.add_subcommand(
      "features", "cluster a network's patch features, for quantizer.features.file");
  declare_data_arguments(*features, patches->model);
  features->add_option("--codes", patches->codes, "number of codes K")
      ->check(codes_range)
      ->required();
  features
      ->add_option("--net", patches->net,
                   "feature network, whose pretrained weights must be stored")
      ->check(CLI::IsMember(nets))
      ->capture_default_str();
  features->add_option("--size", patches->size, "resize and crop images to this size")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  features->add_option("--grid", patches->grid, "patches per side of an image")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->capture_default_str();
  declare_clustering(*features, *patches);
  features->callback([patches] { run_features(*patches); });
}

}  // namespace nsvq
