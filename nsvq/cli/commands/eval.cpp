#include <CLI/CLI.hpp>
#include <optional>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/per_image.h"
#include "nsvq/metrics/usage.h"
#include "nsvq/tokenizer/evaluate.h"

namespace nsvq {

namespace {

/// Largest batch size chosen: metrics' networks take a batch at once, some at a larger image size.
constexpr int64_t kMostImages = 256;

struct EvalArguments {
  ModelArguments model;
  MetricArguments metrics;
  std::string histogram, per_image;
  int gpus = 0;
  double timeout = DistConfig().timeout;
};

/// The file of --per-image; for "-" a temporary one, printed alone at the end.
class PerImageOutput {
 public:
  explicit PerImageOutput(std::string name) : name_(std::move(name)) {
    if (name_ != "-") return;
    stdout_.emplace("--per-image -");
    folder_.emplace();
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

Json to_json(const EvalArguments& arguments, const std::string& model, const MetricChoice& choice,
             const std::map<std::string, double>& values, bool on_training_images) {
  Json json = {{"model", model}, {"data", arguments.model.data.text()}};
  if (on_training_images) json["on_training_images"] = true;
  add_measured(json, values, arguments.metrics, choice, {arguments.model.data.text()});
  return json;
}

/// The arguments, without outputs on ranks above 0.
EvalArguments arguments_of_rank(EvalArguments arguments, const Group& group) {
  if (group.size() > 1 && !arguments.per_image.empty()) {
    throw UserError("--per-image: figures of single images are written by one process alone");
  }
  if (!group.leads()) arguments.histogram = arguments.metrics.json.file = "";
  return arguments;
}

/// Before the work. JsonOutput checks its own file.
void check_outputs(const EvalArguments& arguments) {
  const auto& [json, force] = arguments.metrics.json;
  if (arguments.per_image == "-" && json == "-") {
    throw UserError("--per-image - and --json -: one of them has standard output; name a file");
  }
  if (arguments.histogram.ends_with(".svg")) {
    throw UserError(
        "--histogram {}: no picture is drawn; name FILE.csv for the counts, or see the page of "
        "nsvq report",
        arguments.histogram);
  }
  require_distinct({{"--json", json}, {"--per-image", arguments.per_image}});
  check_output_files(
      {{"--histogram", arguments.histogram, ".csv"},
       {"--per-image", arguments.per_image == "-" ? "" : arguments.per_image, ".csv"}},
      force, {{"--json", json}});
}

/// How often each code was used: a line "code,count" for each.
std::string histogram_csv(const torch::Tensor& hits) {
  std::string text = "code,count\n";
  const auto counts = hits.to(at::kCPU, at::kLong).contiguous();
  for (int64_t i = 0; i < counts.numel(); ++i) {
    text += fmt::format("{},{}\n", i, counts.data_ptr<int64_t>()[i]);
  }
  return text;
}

void evaluate_as_rank(const EvalArguments& arguments, const Launch& launch, Group& group) {
  auto choice = choose_metrics(arguments.metrics, Measured::images_and_tokens);
  check_outputs(arguments);
  JsonOutput output(arguments.metrics.json);
  PerImageOutput figures(arguments.per_image);
  ModelOnData opened(arguments.model, launch);
  const bool on_training_images = opened.judged_on_training_images(arguments.model);
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
  const auto data = arguments.model.data.text();
  print_figures(fmt::format("{} on {}", model, data), values, choice, {data});
  if (per_image) per_image->finish();
  figures.print();
  output.write(to_json(arguments, model, choice, values, on_training_images));
  if (!arguments.histogram.empty()) {
    write_text(arguments.histogram, histogram_csv(usage->hits()));
  }
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
  declare_on_training_images(app, arguments->model);
  declare_metric_arguments(app, arguments->metrics, Measured::images_and_tokens);
  declare_statistics_argument(app, arguments->metrics);
  app.add_option("--histogram", arguments->histogram,
                 "FILE.csv: how often each code was used (code,count)")
      ->type_name("FILE")
      ->group(kRare);
  app.add_option("--per-image", arguments->per_image,
                 "FILE.csv: PSNR, SSIM and LPIPS of each image; as far as they are measured; - is "
                 "standard output, and tables go to standard error")
      ->type_name("FILE");
  declare_gpus(app, arguments->gpus, "evaluate");
  declare_timeout(app, arguments->timeout);
  app.callback([arguments] {
    if (arguments->gpus > 1) start_on_gpus(arguments->gpus, arguments->model.device);
    run_eval(*arguments);
  });
}

}  // namespace nsvq
