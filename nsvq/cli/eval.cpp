#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/cli/command.h"
#include "nsvq/cli/metric_arguments.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/metrics/usage.h"
#include "nsvq/report/metric_table.h"
#include "nsvq/report/usage_chart.h"
#include "nsvq/tokenizer/measure.h"

namespace nsvq {

namespace {

/// Largest batch size: metrics' networks process a batch at once, some at a larger image size.
constexpr int64_t kMostImages = 256;

struct EvalArguments {
  ModelArguments model;
  MetricArguments metrics;
  std::string histogram;
};

void write_json(const EvalArguments& arguments, const std::string& model,
                const MetricChoice& choice, const std::map<std::string, double>& values) {
  if (arguments.metrics.json.empty()) return;
  nlohmann::ordered_json json = {{"model", model}, {"data", arguments.model.data.text()}};
  add_figures(json, values);
  add_origins(json, arguments.metrics, choice);
  json["conventions"] = describe_choice(choice);
  write_text(arguments.metrics.json, json.dump(2) + "\n");
}

void run_eval(const EvalArguments& arguments) {
  auto choice = choose_and_check(arguments.metrics, Measured::images_and_tokens);
  if (!arguments.histogram.empty() && !arguments.histogram.ends_with(".svg")) {
    throw UserError("--histogram: {} does not end in .svg; the histogram is an SVG picture",
                    arguments.histogram);
  }
  require_writable(arguments.histogram);
  ModelOnData opened(arguments.model);
  if (arguments.model.batch_size == 0) {
    opened.options.batch_size =
        std::min(kMostImages, opened.session.batch_size(opened.options.transform));
  }
  if (!arguments.histogram.empty()) opened.session.require_tokens();
  const bool tokens = opened.session.codes() > 0;
  if (!tokens && arguments.metrics.metrics.empty()) choice = without_tokens(choice);
  const auto model = opened.session.file().string();
  std::optional<Usage> usage;
  if (tokens) usage.emplace(opened.session.codes(), utilisation);
  const auto count = [&](const EvalBatch& batch) {
    if (usage) usage->add(batch);
  };
  const auto values =
      measure(opened.session, {arguments.model.data.text(), opened.source, opened.options}, choice,
              {.on_batch = count});
  fmt::print("{} on {}, as {}\n{}", model, arguments.model.data.text(), choice.conventions.name,
             metric_table(values, choice.conventions));
  print_origins(arguments.metrics, choice);
  write_json(arguments, model, choice, values);
  if (arguments.histogram.empty()) return;
  write_text(arguments.histogram, usage_chart(usage->hits()));
}

}  // namespace

void declare_eval(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  declare_model_arguments(app, arguments->model);
  declare_metric_arguments(app, arguments->metrics);
  declare_statistics_argument(app, arguments->metrics);
  app.add_option("--histogram", arguments->histogram, "FILE.svg: draw a histogram of code usage");
  app.callback([arguments] { run_eval(*arguments); });
}

}  // namespace nsvq
