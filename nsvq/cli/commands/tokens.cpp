// `nsvq tokens`: folders of tokens as a whole.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/tokens/merge_tokens.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct VerifyArguments {
  std::string folder, json;
};

struct MergeArguments {
  std::vector<std::string> folders;
  std::string out;
};

size_t images_in(const TokenManifest& manifest) {
  size_t images = 0;
  for (const auto& shard : manifest.shards) images += static_cast<size_t>(shard.images);
  return images;
}

void run_verify(const VerifyArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto manifest = read_token_progress(arguments.folder);
  const auto problems = check_tokens(arguments.folder, manifest);
  nlohmann::ordered_json json = {
      {"tokens", arguments.folder},       {"complete", manifest.complete},
      {"sound", problems.empty()},        {"images", images_in(manifest)},
      {"shards", manifest.shards.size()}, {"problems", nlohmann::ordered_json::array()}};
  for (const auto& [file, what] : problems) {
    json["problems"].push_back({{"file", file}, {"problem", what}});
    fmt::print("{}\n", what);
  }
  if (problems.empty()) {
    fmt::print("{}: complete and sound, {} in {}\n", arguments.folder,
               count_of(images_in(manifest), "image"), count_of(manifest.shards.size(), "shard"));
  }
  output.write(json);
  if (!problems.empty()) {
    throw UserError("{}: {}: not as its manifest says, by the lines above", arguments.folder,
                    count_of(problems.size(), "problem"));
  }
}

void run_merge(const MergeArguments& arguments) {
  require_folder_name(arguments.out, "");
  const auto manifest =
      merge_tokens({arguments.folders.begin(), arguments.folders.end()}, arguments.out);
  fmt::print("{}: {} in {}\n", arguments.out, count_of(images_in(manifest), "image"),
             count_of(manifest.shards.size(), "shard"));
}

}  // namespace

void declare_tokens(CLI::App& app) {
  app.require_subcommand(1);

  const auto verify = std::make_shared<VerifyArguments>();
  auto* verifying = app.add_subcommand(
      "verify", "check every shard of a folder, and name those that are missing or damaged");
  verifying->add_option("DIR", verify->folder, "a folder of `nsvq tokenize` or `nsvq tokens merge`")
      ->required();
  declare_json_argument(*verifying, verify->json);
  verifying->callback([verify] { run_verify(*verify); });

  const auto merge = std::make_shared<MergeArguments>();
  auto* merging =
      app.add_subcommand("merge", "join finished folders of the same model and settings into one");
  merging->add_option("DIR", merge->folders, "folders of tokens, in the order of the result")
      ->required();
  merging->add_option("--out", merge->out, "the new folder; shards are linked there, or copied")
      ->required();
  merging->callback([merge] { run_merge(*merge); });
}

}  // namespace nsvq
