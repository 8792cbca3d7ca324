#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/diffusion/diffusion_session.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/recipe/loader_options.h"

namespace nsvq {

namespace {

struct ProbeArguments : SampleArguments {
  Sources data;
  int64_t limit = 0;
  std::vector<int64_t> times;
  MetricArguments metrics;
};

/// What is measured at one time.
struct Probe {
  int64_t time;
  MetricSet metrics;     ///< of images after their noise is removed
  torch::Tensor errors;  ///< [2] sums of DenoisingLoss::Errors, fp64
};

/// A tenth of the process apart, unless they are named.
std::vector<int64_t> times_to_probe(const ProbeArguments& arguments, const NoiseConfig& noise) {
  auto times = arguments.times;
  for (const int64_t time : times) {
    if (time >= 0 && time < noise.times) continue;
    throw UserError("--times {}: the model's process has times 0 to {}", time, noise.times - 1);
  }
  constexpr int64_t tenths = 10;
  for (int64_t i = 1; times.size() < tenths && arguments.times.empty(); ++i) {
    times.push_back(std::max<int64_t>(i * noise.times / tenths - 1, 0));
  }
  return times;
}

std::vector<Probe> make_probes(const ProbeArguments& arguments, const MetricChoice& choice,
                               const DiffusionSession& session) {
  std::vector<Probe> probes;
  for (const int64_t time : times_to_probe(arguments, session.config().noise)) {
    probes.push_back({time,
                      MetricSet(choice.names, {.conventions = choice.conventions,
                                               .codes = 0,
                                               .device = session.device(),
                                               .reference = choice.reference}),
                      at::zeros({2}, at::device(session.device()).dtype(at::kDouble))});
  }
  return probes;
}

SampleRequest request_for(const ProbeArguments& arguments, const Batch& batch, const Source& source,
                          const DiffusionConfig& config) {
  SampleRequest request;
  request.seed = arguments.seed;
  request.indices = batch.indices;
  request.quantise = !arguments.unquantised;
  if (config.classes > 0) {
    for (const int64_t image : batch.indices) request.labels.push_back(source.label(image));
  }
  return request;
}

/// One batch at each time.
void add_batch(std::vector<Probe>& probes, DiffusionSession& session, const torch::Tensor& images,
               const SampleRequest& request) {
  for (auto& probe : probes) {
    const auto errors = session.errors(request, images, probe.time);
    probe.errors += at::stack({errors.loss.sum(), errors.data.sum()}).to(at::kDouble);
    probe.metrics.add({images, session.denoise(request, images, probe.time), {}});
  }
}

int64_t probe_images(std::vector<Probe>& probes, const ProbeArguments& arguments,
                     DiffusionSession& session, Group& group) {
  const auto& config = session.config();
  const auto source = limited(
      open_source(with_hashes(arguments.data, config.data.split),
                  {.pixels = static_cast<uint64_t>(config.data.max_pixels)}, config.data.retries),
      arguments.limit);
  require_classes(*source, config.told(), "--data");
  auto options = inference_loader_options(config, session.device());
  options.batch_size = arguments.batch_size;
  options.rank = group.rank();
  options.world = group.size();
  Loader loader(source, options);
  Progress progress("probe", source->size(), "images");
  loader.start(0);
  int64_t images = 0;
  while (const auto batch = loader.next()) {
    add_batch(probes, session, batch->images, request_for(arguments, *batch, *source, config));
    images += batch->images.size(0);
    progress.update(images * group.size());
  }
  progress.finish();
  const auto all = at::tensor({images}, at::kLong);
  group.sum({all});
  for (auto& probe : probes) {
    probe.metrics.join(group);
    group.sum({probe.errors});
  }
  if (all.item<int64_t>() == 0) {
    throw UserError("--data {}: no usable image", arguments.data.text());
  }
  return all.item<int64_t>();
}

std::map<std::string, double> figures_of(const Probe& probe, int64_t images,
                                         const NoiseSchedule& schedule) {
  const auto sums = probe.errors.cpu();
  const double abar = schedule.abar.at(static_cast<size_t>(probe.time));
  auto figures = probe.metrics.values();
  figures["snr"] = abar / (1 - abar);
  figures["loss"] = sums[0].item<double>() / static_cast<double>(images);
  figures["latent_error"] = sums[1].item<double>() / static_cast<double>(images);
  return figures;
}

/// A line a time.
void print_probe(int64_t time, const std::map<std::string, double>& figures) {
  std::string line = fmt::format("time {:4}  snr {:9.3g}  loss {:8.4g}  latent error {:8.4g}", time,
                                 figures.at("snr"), figures.at("loss"), figures.at("latent_error"));
  for (const auto& kind : metric_kinds()) {
    const auto found = figures.find(kind.name);
    if (found == figures.end()) continue;
    line += fmt::format("  {} {}{}", kind.name, format_figure(found->second, kind.display),
                        kind.display.unit.empty() ? "" : " " + kind.display.unit);
  }
  fmt::print("{}\n", line);
}

void run_probe(ProbeArguments arguments) {
  work_on_ranks(arguments, [&](const Launch& launch, Group& group) {
    if (!group.leads()) arguments.metrics.json.file = "";
    const auto choice = choose_metrics(arguments.metrics, Measured::images);
    JsonOutput output(arguments.metrics.json);
    auto session = open_diffusion(arguments, launch);
    const torch::NoGradGuard no_grad;
    auto probes = make_probes(arguments, choice, session);
    const auto images = probe_images(probes, arguments, session, group);
    if (!group.leads()) return;
    const auto schedule = make_noise_schedule(session.config().noise);
    Json rows = Json::array();
    for (const auto& probe : probes) {
      const auto figures = figures_of(probe, images, schedule);
      print_probe(probe.time, figures);
      Json row = {{"time", probe.time}};
      for (const auto& [name, value] : figures) row[name] = value;
      rows.push_back(row);
    }
    Json json = {{"model", session.model().file.string()},
                 {"data", arguments.data.text()},
                 {"images", images},
                 {"quantised", !arguments.unquantised},
                 {"times", rows}};
    json.update(describe_choice(choice));
    output.write(json);
  });
}

}  // namespace

void declare_diffusion_probe(CLI::App& app) {
  const auto arguments = std::make_shared<ProbeArguments>();
  declare_sample_arguments(app, *arguments);
  app.get_option("--class")->group("");  // images have classes of their own
  declare_data(app, arguments->data, "images whose latents get noise, prepared as in training")
      ->required();
  declare_limit(app, arguments->limit);
  app.add_option("--times", arguments->times,
                 "times of the noise, separated by commas (default: ten, a tenth of the process "
                 "apart)")
      ->delimiter(',');
  declare_metric_arguments(app, arguments->metrics, Measured::images);
  app.footer(
      "For each time: the loss there, the mean squared error of the latents that the network "
      "finds,\n"
      "and figures of images after sampling has removed the noise of that time.");
  app.callback([arguments] { run_probe(*arguments); });
}

}  // namespace nsvq
