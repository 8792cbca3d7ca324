#include "nsvq/cli/commands/weights_files.h"

#include "nsvq/cli/commands/weights_script.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/features/inception.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The module whose parameters are the tensors of this file.
std::shared_ptr<torch::nn::Module> module_of(const std::string& name) {
  for (const auto& kind : feature_net_kinds()) {
    if (name == kind.weights) return kind.make();
    if (kind.has_lpips && name == "lpips-" + kind.name)
      return std::make_shared<LpipsHeads>(kind.channels);
  }
  if (name == "inception") return std::make_shared<Inception>();
  throw UserError("no weights are named '{}'", name);
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  const auto at = text.find(old);
  return at == std::string::npos ? text : text.replace(at, old.size(), fresh);
}

}  // namespace

TensorMap pick_tensors(const std::string& name, const TensorMap& tensors, const std::string& from) {
  TensorMap known;
  for (const auto& [key, value] : tensors) known[replaced(key, ".model.1.", ".")] = value;
  const auto module = module_of(name);
  load_parameters(*module, known, from);
  TensorMap picked;
  for (const auto& item : module->named_parameters()) picked[item.key()] = known.at(item.key());
  return picked;
}

TensorMap read_user_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw UserError("{}: a folder; name the .pth or .safetensors file in it", path.string());
  }
  if (path.extension() == ".safetensors") return read_safetensors(path).tensors;
  // Asked here: the script would call every failure to open a bad .pth file.
  if (!fs::is_regular_file(path, ignored)) throw UserError("no file {}", path.string());
  const TemporaryFolder scratch;
  const auto out = scratch / "tensors.safetensors";
  // As a whole path, which does not begin with a dash.
  run_weights_script({"read", fs::absolute(path).string(), out.string()});
  return read_safetensors(out).tensors;
}

}  // namespace nsvq
