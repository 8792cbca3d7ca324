#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokens/tokenize.h"

namespace nsvq {

namespace {

struct TokenizeArguments : ShardArguments {
  std::string crop, part;
  bool shard_size_given = false;
  int64_t claim_timeout = 300;
};

int parse_side(std::string_view text, std::string_view whole) {
  int side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (error == std::errc() && end == text.data() + text.size() && side >= 1 && side <= 16384) {
    return side;
  }
  throw UserError(
      "--crop: {} is not of the form HEIGHTxWIDTH, such as 128x192 (or 128 for a square)",
      quote(whole));
}

void set_crop(TransformOptions& transform, std::string_view text) {
  const size_t times = text.find('x');
  transform.height = parse_side(text.substr(0, times), text);
  transform.width =
      times == std::string_view::npos ? transform.height : parse_side(text.substr(times + 1), text);
}

void check_stride(const TransformOptions& transform, int64_t stride) {
  for (const int side : {transform.output_height(), transform.output_width()}) {
    if (side % stride == 0) continue;
    throw UserError("--crop: {}x{} is not a multiple of the model's stride, which is {}",
                    transform.output_height(), transform.output_width(), stride);
  }
}

/// --batch-size, else that of unfinished tokens in the folder, else the device's default, at most a
/// shard.
int64_t choose_batch_size(const TokenizeArguments& arguments, const ModelOnData& opened,
                          const TransformOptions& transform) {
  if (arguments.model.batch_size > 0) return arguments.model.batch_size;
  if (path_exists(std::filesystem::path(arguments.out) / kTokenManifest)) {
    return read_token_manifest(arguments.out).settings.batch_size;
  }
  return std::min(opened.session.batch_size(transform), arguments.shard_size);
}

/// Logs that shards are larger than asked for, since they hold whole batches.
void tell_rounding(int64_t shard_size, int64_t batch) {
  const int64_t whole = (shard_size + batch - 1) / batch * batch;
  if (whole == shard_size) return;
  log("--shard-size {}: shards hold {}, whole batches of {} (--batch-size)", shard_size,
      count_of(whole, "image"), batch);
}

void run_tokenize(const TokenizeArguments& arguments) {
  check_output_folder(arguments.out);
  const auto part = choose_part(arguments.part);
  ModelOnData opened(arguments.model);
  opened.session.require_tokens();
  auto options = shard_options<TokenizeOptions>(arguments, opened);
  options.part = part;
  options.claim_timeout = std::chrono::seconds(arguments.claim_timeout);
  if (!arguments.crop.empty()) set_crop(options.loader.transform, arguments.crop);
  check_stride(options.loader.transform, opened.session.stride());
  options.loader.batch_size = choose_batch_size(arguments, opened, options.loader.transform);
  note_batch_size("--batch-size ", options.loader.batch_size);
  if (arguments.shard_size_given) tell_rounding(options.shard_size, options.loader.batch_size);
  const auto manifest = tokenize(opened.session, images_for_shards(arguments, opened), options);
  int64_t images = 0, broken = 0;
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
  }
  fmt::print("{}: {} of {}x{} tokens in {}\n", arguments.out, count_of(images, "image"),
             manifest.settings.grid_height, manifest.settings.grid_width,
             count_of(manifest.shards.size(), "shard"));
  if (broken > 0) {
    fmt::print("{} skipped (listed in manifest.json)\n", count_of(broken, "broken image"));
  }
}

}  // namespace

void declare_tokenize(CLI::App& app) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "folder for the shards: new, empty, or begun by this command, also by other "
                 "processes that share the work")
      ->required()
      ->type_name("DIR");
  declare_shard_arguments(app, *arguments);
  app.add_option("--crop", arguments->crop,
                 "HEIGHTxWIDTH of the images, multiples of the model's stride (default: the square "
                 "of training)")
      ->type_name("HxW");
  app.add_option("--part", arguments->part,
                 "K/N, such as 3/64: of N processes that fill the folder, this one begins with the "
                 "K-th share and then helps the others; auto: as torchrun or SLURM say (default: "
                 "1/1, auto under torchrun)")
      ->type_name("K/N");
  app.add_option("--claim-timeout", arguments->claim_timeout,
                 "seconds after which a shard of a silent process on another machine is made by "
                 "others")
      ->check(CLI::Range(int64_t{1}, int64_t{86400}))
      ->capture_default_str();
  app.callback([arguments, &app] {
    arguments->shard_size_given = app.count("--shard-size") > 0;
    run_tokenize(*arguments);
  });
}

}  // namespace nsvq
