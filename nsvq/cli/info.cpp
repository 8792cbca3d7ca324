#include <CLI/CLI.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/core/error.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace {

int64_t numbers_under(const TensorFile& file, const std::string& prefix) {
  int64_t numbers = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) numbers += tensor.numel();
  }
  return numbers;
}

void run_info(const std::string& path) {
  const auto [file, contents] = open_model_file(path);
  fmt::print("file         {}\n", file.string());
  for (const auto& name : {"version", "step", "epoch"}) {
    const auto value = contents.metadata.find(std::string("nsvq.") + name);
    if (value != contents.metadata.end()) fmt::print("{:12} {}\n", name, value->second);
  }
  fmt::print("tensors      {}\n", contents.tensors.size());
  for (const auto& part : {"encoder", "quantizer", "decoder"}) {
    fmt::print("{:12} {} parameters\n", part, numbers_under(contents, std::string(part) + "."));
  }
  const auto config = contents.metadata.find("nsvq.config");
  if (config != contents.metadata.end()) fmt::print("\n{}", config->second);
}

}  // namespace

void declare_info(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("CHECKPOINT", *path, "a run's folder, a checkpoint folder or a model.safetensors")
      ->required();
  app.callback([path] { run_info(*path); });
}

}  // namespace nsvq
