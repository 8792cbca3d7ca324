#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/number_argument.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/output/reserved_stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/memory_advice.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/metrics/per_image.h"
#include "nsvq/metrics/usage.h"
#include "nsvq/report/usage_chart.h"
#include "nsvq/tokenizer/measure.h"

namespace nsvq {

namespace {

/// Largest batch size: metrics' networks process a batch at once, some at a larger image size.
constexpr int64_t kMostImages = 256;

struct EvalArguments {
  ModelArguments model;
  MetricArguments metrics;
  std::string histogram, per_image;
  int gpus = 0;
  double timeout = DistConfig().timeout;
};

/// Where --per-image goes: to a file, or for "-" to standard output, alone and once all is known.
class PerImageOutput {
 public:
  explicit PerImageOutput(std::string name) : name_(std::move(name)) {
    if (name_ == "-") {
      stdout_.emplace("--per-image -");
      folder_.emplace();
    } else {
      require_replaceable("--per-image", name_, FileKind::image_table);
    }
  }

  std::string file() const { return folder_ ? (*folder_ / "figures.csv").string() : name_; }
  void print() {
    if (folder_) stdout_->print(read_text(file()));
  }

 private:
  std::string name_;
  std::optional<ReservedStdout> stdout_;
  std::optional<TemporaryFolder> folder_;
};

nlohmann::ordered_json to_json(const EvalArguments& arguments, const std::string& model,
                               const MetricChoice& choice,
                               const std::map<std::string, double>& values) {
  nlohmann::ordered_json json = {{"model", model}, {"data", arguments.model.data.text()}};
  add_figures(json, values);
  add_origins(json, arguments.metrics, choice);
  json["conventions"] = describe_choice(choice);
  return json;
}

/// Rank 0's outputs are those of the arguments; other ranks have none.
EvalArguments arguments_of_rank(EvalArguments arguments, const Group& group) {
  if (group.size() > 1 && !arguments.per_image.empty()) {
    throw UserError("--per-image: figures of single images are written by one process alone");
  }
  if (!group.leads()) arguments.histogram = arguments.metrics.json = "";
  return arguments;
}

void evaluate_as_rank(const EvalArguments& arguments, const Launch& launch, Group& group) {
  if (arguments.per_image == "-" && arguments.metrics.json == "-") {
    throw UserError("--per-image - and --json -: one of them has standard output; name a file");
  }
  auto choice = choose_metrics(arguments.metrics, Measured::images_and_tokens);
  require_distinct({{"--json", arguments.metrics.json},
                    {"--per-image", arguments.per_image},
                    {"--histogram", arguments.histogram}});
  JsonOutput output(arguments.metrics.json);
  if (!arguments.histogram.empty() && !arguments.histogram.ends_with(".svg")) {
    throw UserError("--histogram: {} does not end in .svg; the histogram is an SVG picture",
                    arguments.histogram);
  }
  require_replaceable("--histogram", arguments.histogram, FileKind::svg);
  require_writable(arguments.histogram);
  PerImageOutput figures(arguments.per_image);
  ModelOnData opened(arguments.model, launch);
  if (arguments.model.batch_size == 0) {
    opened.options.batch_size =
        std::min(kMostImages, opened.session.batch_size(opened.options.transform));
    note_batch_size("--batch-size ", opened.options.batch_size);
  }
  if (!arguments.histogram.empty()) opened.session.require_tokens();
  const bool tokens = opened.session.codes() > 0;
  if (!tokens && arguments.metrics.metrics.empty()) choice = without_tokens(choice);
  const auto model = opened.session.file().string();
  std::optional<Usage> usage;
  if (tokens) usage.emplace(opened.session.codes(), utilisation);
  std::optional<PerImageFile> per_image;
  if (!arguments.per_image.empty()) {
    catch_interrupts(OnStop::discards);  // so that a stop leaves no half-written file
    per_image.emplace(figures.file(), *opened.source, choice, opened.session.device());
  }
  const auto count = [&](const EvalBatch& batch, const std::vector<int64_t>& indices) {
    if (usage) usage->add(batch);
    if (per_image) per_image->add(batch, indices);
  };
  const auto values =
      measure(opened.session, {arguments.model.data.text(), opened.source, opened.options}, choice,
              {.group = &group, .on_batch = count});
  if (usage) group.sum(usage->sums());
  if (!group.leads()) return;
  fmt::print("{} on {}, as {}\n{}", model, arguments.model.data.text(), choice.conventions.name,
             metric_table(values, choice.conventions));
  print_origins(arguments.metrics, choice);
  if (per_image) per_image->finish();
  figures.print();
  output.write(to_json(arguments, model, choice, values));
  if (arguments.histogram.empty()) return;
  write_text(arguments.histogram, usage_chart(usage->hits()));
}

void run_eval(const EvalArguments& arguments) {
  const auto launch = launch_from_environment();
  const auto group = join_ranks(launch, {.timeout = arguments.timeout, .backend = "gloo"},
                                "start the command again");
  work_as_rank(*group,
               [&] { evaluate_as_rank(arguments_of_rank(arguments, *group), launch, *group); });
}

}  // namespace

void declare_eval(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  declare_model_arguments(app, arguments->model);
  declare_metric_arguments(app, arguments->metrics, Measured::images_and_tokens);
  declare_statistics_argument(app, arguments->metrics);
  app.add_option("--histogram", arguments->histogram, "FILE.svg: draw a histogram of code usage");
  app.add_option("--per-image", arguments->per_image,
                 "FILE.csv: write PSNR, SSIM and LPIPS, where measured, of each image; -: print "
                 "them alone on standard output, and tables on standard error");
  app.add_option("--gpus", arguments->gpus,
                 "evaluate on so many GPUs of this machine, a process each (docs/distributed.md)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--timeout", arguments->timeout,
                 "seconds without a sign of life of a process after which the others end")
      ->check(check_number(Range::above(0)))
      ->capture_default_str();
  app.callback([arguments] {
    if (arguments->gpus > 1) start_on_gpus(arguments->gpus, arguments->model.device);
    run_eval(*arguments);
  });
}

}  // namespace nsvq
