#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/cli/table.h"
#include "nsvq/io/file.h"
#include "nsvq/train/evaluate.h"

namespace nsvq {

namespace {

struct EvalArguments {
  ModelArguments model;
  std::string json;
};

void run_eval(const EvalArguments& arguments) {
  const auto group = make_group();
  auto opened = open(arguments.model, *group);
  Loader loader(opened.source, opened.options);
  auto values = evaluate(opened.model.tokenizer, loader, *group, opened.device, "evaluation");
  values["broken_images"] = static_cast<double>(loader.broken());
  fmt::print("{} on {}\n{}", opened.model.file.string(), arguments.model.data,
             metric_table(values));
  if (arguments.json.empty()) return;
  nlohmann::ordered_json json = {{"model", opened.model.file.string()},
                                 {"data", arguments.model.data}};
  for (const auto& [name, value] : values) json[name] = value;
  write_text(arguments.json, json.dump(2) + "\n");
}

}  // namespace

void declare_eval(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--json", arguments->json, "also write the figures to this file");
  app.callback([arguments] { run_eval(*arguments); });
}

}  // namespace nsvq
