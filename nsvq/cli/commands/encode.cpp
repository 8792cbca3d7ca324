// `nsvq encode`: latents of images, as `diffusion train` reads them (diffusion.cached).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/text.h"
#include "nsvq/diffusion/cache_latents.h"
#include "nsvq/io/files/resumable_folder.h"

namespace nsvq {

namespace {

/// The sizes of latents that are in the folder already.
std::optional<ShardSizes> begun_sizes_of_latents(const std::filesystem::path& out) {
  const auto settings = recorded_settings(out);
  if (!settings) return std::nullopt;
  const auto number = [&](const char* name) {
    const auto found = settings->find(name);
    return found == settings->end() ? std::nullopt : parse_decimal(found->second);
  };
  const auto shard = number("shard size"), batch = number("batch size");
  if (shard.value_or(0) < 1 || batch.value_or(0) < 1) return std::nullopt;
  return ShardSizes{*shard, *batch};
}

void run_encode(const ShardArguments& arguments) {
  check_output_folder(arguments.out);
  require_fillable(arguments.out);
  ModelOnData opened(arguments.model);
  auto options = shard_options<CacheLatentsOptions>(arguments, opened);
  options.named_classes = !arguments.classes.empty();
  const auto sizes = choose_shard_sizes(arguments, opened, options.loader.transform,
                                        begun_sizes_of_latents(arguments.out));
  options.shard_size = sizes.shard;
  options.loader.batch_size = sizes.batch;
  note_batch_size("--batch-size ", sizes.batch);
  const auto manifest =
      cache_latents(opened.session, images_for_shards(arguments, opened), options);
  fmt::print("{}: latents {} of {} in {}\n", arguments.out, fmt::join(manifest.shape, "x"),
             count_of(manifest.images, "image"), count_of(manifest.shards, "shard"));
  if (!manifest.broken.empty()) {
    fmt::print("{} skipped (listed in manifest.json)\n",
               count_of(manifest.broken.size(), "broken image"));
  }
}

}  // namespace

void declare_encode(CLI::App& app) {
  const auto arguments = std::make_shared<ShardArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "folder for the shards; new, empty, or left incomplete by this command")
      ->required()
      ->type_name("DIR");
  declare_shard_arguments(app, *arguments);
  app.callback([arguments] { run_encode(*arguments); });
}

}  // namespace nsvq
