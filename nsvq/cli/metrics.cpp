#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "nsvq/cli/command.h"
#include "nsvq/cli/metric_arguments.h"
#include "nsvq/cli/pairs.h"
#include "nsvq/cli/table.h"
#include "nsvq/core/device.h"
#include "nsvq/core/progress.h"
#include "nsvq/io/file.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

struct MetricsArguments {
  std::string reference, other;
  std::string device = "auto";
  MetricArguments metrics;
};

/// Calls `use(load(i))` for 0 <= i < count in order, loading a few ahead in threads.
template <typename Load, typename Use>
void load_ahead(int64_t count, const Load& load, const Use& use) {
  const int64_t ahead = std::clamp<int64_t>(std::thread::hardware_concurrency(), 2, 16);
  std::deque<std::future<std::invoke_result_t<Load, int64_t>>> loading;
  for (int64_t started = 0; started < count || !loading.empty();) {
    while (started < count && std::ssize(loading) < ahead) {
      loading.push_back(std::async(std::launch::async, load, started++));
    }
    auto loaded = loading.front().get();
    loading.pop_front();
    use(std::move(loaded));
  }
}

/// Gathers neighbours of one size into batches, small ones for large images.
class Batches {
 public:
  explicit Batches(MetricSet& metrics) : metrics_(metrics) {}

  void add(ImagePair pair) {
    const Image& image = pair.reference ? *pair.reference : *pair.other;
    const Shape shape = {pair.reference.has_value(), pair.other.has_value(), image.width,
                         image.height};
    constexpr int64_t most_pixels = 1 << 20, most_images = 32;
    const int64_t room = most_pixels / (int64_t{image.width} * image.height);
    if (shape != shape_ || std::ssize(pairs_) >= std::clamp<int64_t>(room, 1, most_images)) flush();
    shape_ = shape;
    pairs_.push_back(std::move(pair));
  }

  void flush() {
    if (!pairs_.empty()) metrics_.add(to_batch(pairs_));
    pairs_.clear();
  }

 private:
  using Shape = std::tuple<bool, bool, int, int>;

  MetricSet& metrics_;
  Shape shape_;
  std::vector<ImagePair> pairs_;
};

bool compares_sets(const std::string& name) { return metric_kind(name).input == MetricInput::sets; }

std::map<std::string, double> measure(const NamedSource& reference, const NamedSource& other,
                                      const MetricChoice& choice, c10::Device device) {
  MetricSet metrics(choice.names,
                    {.conventions = choice.conventions, .codes = 0, .device = device});
  const bool sets = std::all_of(choice.names.begin(), choice.names.end(), compares_sets);
  const auto pairs =
      sets ? unpaired(*reference.source, *other.source) : pair_by_name(reference, other);
  Batches batches(metrics);
  Progress progress("metrics", std::ssize(pairs), sets ? "images" : "pairs");
  int64_t done = 0;
  load_ahead(
      std::ssize(pairs), [&](int64_t i) { return load_pair(reference, other, pairs[i]); },
      [&](ImagePair pair) {
        batches.add(std::move(pair));
        progress.update(++done);
      });
  batches.flush();
  progress.finish();
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>(reference.source->size());
  return values;
}

void run_metrics(const MetricsArguments& arguments) {
  const auto choice = choose_metrics(arguments.metrics, Measured::images);
  const NamedSource reference{arguments.reference, open_source(arguments.reference)};
  const NamedSource other{arguments.other, open_source(arguments.other)};
  const auto values = measure(reference, other, choice, choose_device(arguments.device));
  fmt::print("{} against {}, as {}\n{}", other.spec, reference.spec, choice.conventions.name,
             metric_table(values, choice.conventions));
  if (arguments.metrics.json.empty()) return;
  nlohmann::ordered_json json = {{"reference", reference.spec}, {"other", other.spec}};
  add_figures(json, values);
  json["conventions"] = describe_choice(choice);
  write_text(arguments.metrics.json, json.dump(2) + "\n");
}

}  // namespace

void declare_metrics(CLI::App& app) {
  const auto arguments = std::make_shared<MetricsArguments>();
  app.add_option("REFERENCE", arguments->reference, "an image, a folder or tar shards")->required();
  app.add_option("OTHER", arguments->other,
                 "the same, compared with it: pairs by name without ending, at their own sizes; "
                 "Fréchet distances alone need no pairs")
      ->required();
  declare_metric_arguments(app, arguments->metrics);
  app.add_option("--device", arguments->device, "auto, cpu or cuda: where networks run")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.callback([arguments] { run_metrics(*arguments); });
}

}  // namespace nsvq
