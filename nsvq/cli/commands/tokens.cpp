// `nsvq tokens`: folders of tokens.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace {

struct VerifyArguments {
  std::string folder;
  JsonArgument json;
};

size_t images_in(const TokenManifest& manifest) {
  size_t images = 0;
  for (const auto& shard : manifest.shards) images += static_cast<size_t>(shard.images);
  return images;
}

void run_verify(const VerifyArguments& arguments) {
  JsonOutput output(arguments.json);
  require_tokens_named(arguments.folder);
  const auto manifest = read_token_progress(arguments.folder);
  Progress progress("verify", std::ssize(manifest.shards), "shards");
  int64_t sound = 0;
  const auto problems = check_tokens(arguments.folder, manifest,
                                     [&](const auto&, const auto&) { progress.update(++sound); });
  problems.empty() ? progress.finish() : clear_status();
  Json json = {{"tokens", arguments.folder},       {"complete", manifest.complete},
               {"sound", problems.empty()},        {"images", images_in(manifest)},
               {"shards", manifest.shards.size()}, {"problems", Json::array()}};
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

void declare_verify(CLI::App& app) {
  const auto arguments = std::make_shared<VerifyArguments>();
  app.add_option("DIR", arguments->folder, "a folder of nsvq tokenize")->required();
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_verify(*arguments); });
}

}  // namespace

void declare_tokens(CLI::App& app) {
  declare_commands(
      app, {{"verify", "check every shard of a folder, and name those that are missing or damaged",
             declare_verify}});
}

}  // namespace nsvq
