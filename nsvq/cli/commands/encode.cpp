// `nsvq encode`: latents of images, as `diffusion train` reads them (diffusion.cached).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/memory_advice.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/diffusion/cache_latents.h"
#include "nsvq/io/files/resumable_folder.h"

namespace nsvq {

namespace {

struct EncodeArguments {
  ModelArguments model;
  std::string out, classes;
  int64_t shard_size = 4096;
};

void run_encode(const EncodeArguments& arguments) {
  check_output_folder(arguments.out);
  require_fillable(arguments.out);
  ModelOnData opened(arguments.model);
  CacheLatentsOptions options;
  options.out = arguments.out;
  options.source = arguments.model.data.text();
  options.shard_size = arguments.shard_size;
  options.loader = opened.options;
  options.loader.on_error = OnError::skip;  // broken images are listed in the manifest
  if (arguments.model.batch_size == 0) {
    options.loader.batch_size =
        std::min(opened.session.batch_size(options.loader.transform), arguments.shard_size);
  }
  note_batch_size("--batch-size ", options.loader.batch_size);
  auto source = opened.source;
  if (!arguments.classes.empty()) {
    source = std::make_shared<NamedClasses>(source, read_class_names(arguments.classes),
                                            arguments.classes);
    options.named_classes = true;
  }
  const auto manifest = cache_latents(opened.session, source, options);
  fmt::print("{}: latents {} of {} in {}\n", arguments.out, fmt::join(manifest.shape, "x"),
             count_of(manifest.images, "image"), count_of(manifest.shards, "shard"));
  if (!manifest.broken.empty()) {
    fmt::print("{} skipped (listed in manifest.json)\n",
               count_of(manifest.broken.size(), "broken image"));
  }
}

}  // namespace

void declare_encode(CLI::App& app) {
  const auto arguments = std::make_shared<EncodeArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "folder for the shards: new, empty, or left incomplete by this command")
      ->required()
      ->type_name("DIR");
  app.add_option(
         "--classes", arguments->classes,
         "text file of class names, one a line: a folder's class is its line's number, from "
         "0 (default: the folders, sorted)")
      ->type_name("FILE");
  app.add_option("--shard-size", arguments->shard_size,
                 "images per shard, rounded up to whole batches; without --batch-size a batch is "
                 "no larger than a shard")
      ->check(CLI::Range(int64_t{1}, int64_t{10000000}))
      ->capture_default_str();
  app.callback([arguments] { run_encode(*arguments); });
}

}  // namespace nsvq
