#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokens/tokenize.h"

namespace nsvq {

namespace {

struct TokenizeArguments : ShardArguments {
  std::string crop, crops, part;
  bool flip = false;
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

TokenizedParts parts_of(const TokenizeArguments& arguments) {
  if (!arguments.crops.empty()) return TokenizedParts::ten_crops;
  return arguments.flip ? TokenizedParts::image_and_mirror_image : TokenizedParts::image;
}

/// "16x16 tokens", or that of several crops.
std::string tokens_of_image(const TokenSettings& settings) {
  const auto tokens = shown_grids(settings.grids());
  const auto count = settings.variants.size();
  return count == 0 ? tokens : fmt::format("{} times {}", count, tokens);
}

void check_stride(const TransformOptions& transform, int64_t stride) {
  for (const int side : {transform.output_height(), transform.output_width()}) {
    if (side % stride == 0) continue;
    throw UserError("--crop: {}x{} is not a multiple of the model's stride, which is {}",
                    transform.output_height(), transform.output_width(), stride);
  }
}

/// The sizes of tokens that are in the folder already.
std::optional<ShardSizes> begun_sizes(const std::filesystem::path& out) {
  if (!path_exists(out / kTokenManifest)) return std::nullopt;
  const auto settings = read_token_manifest(out).settings;
  return ShardSizes{settings.shard_size, settings.batch_size};
}

/// Logs that shards are larger than asked for, since they hold whole batches.
void tell_rounding(int64_t shard_size, int64_t batch) {
  const int64_t whole = (shard_size + batch - 1) / batch * batch;
  if (whole == shard_size) return;
  log("--shard-size {}: shards hold {}, whole batches of {} (--batch-size)", shard_size,
      count_of(whole, "image"), batch);
}

/// A stop by a signal keeps the shards that are finished.
TokenManifest tokenize_until_stopped(const TokenizeArguments& arguments, ModelOnData& opened,
                                     const TokenizeOptions& options) try {
  const auto images = images_for_shards(arguments, opened);
  catch_interrupts();
  return tokenize(opened.session, images, options);
} catch (const Interrupted&) {
  log("{}: stopped; the same command makes the shards that are missing", arguments.out);
  throw;
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
  options.parts = parts_of(arguments);
  check_stride(options.loader.transform, opened.session.stride());
  const auto sizes =
      choose_shard_sizes(arguments, opened, options.loader.transform, begun_sizes(arguments.out));
  options.shard_size = sizes.shard;
  options.loader.batch_size = sizes.batch;
  note_batch_size("--batch-size ", sizes.batch);
  if (arguments.shard_size > 0) tell_rounding(sizes.shard, sizes.batch);
  const auto manifest = tokenize_until_stopped(arguments, opened, options);
  int64_t images = 0, broken = 0;
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
  }
  fmt::print("{}: {} of {} in {}\n", arguments.out, count_of(images, "image"),
             tokens_of_image(manifest.settings), count_of(manifest.shards.size(), "shard"));
  if (broken > 0) {
    fmt::print("{} skipped (listed in manifest.json)\n", count_of(broken, "broken image"));
  }
}

}  // namespace

void declare_tokenize(CLI::App& app) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "folder for the shards; new, empty, or begun by this command, also by other "
                 "processes that share the work")
      ->required()
      ->type_name("DIR");
  declare_shard_arguments(app, *arguments);
  app.add_option("--crop", arguments->crop,
                 "size of the images (default: the square of training); multiples of the model's "
                 "stride")
      ->type_name("HxW");
  app.add_option("--crops", arguments->crops,
                 "ten: tokens of corners and centre of the image 1.1 times as large, and of their "
                 "mirror images")
      ->check(CLI::IsMember({"ten"}));
  app.add_flag("--flip", arguments->flip,
               "tokens of the image and of its mirror image; ten crops have them");
  app.add_option("--part", arguments->part,
                 "begin with share K of N (default: all); of N processes that fill the folder, "
                 "each then helps the others; auto: K and N of torchrun or SLURM, without the "
                 "option only torchrun's")
      ->type_name("K/N");
  app.add_option("--claim-timeout", arguments->claim_timeout,
                 "seconds after which a shard of a silent process on another machine is made by "
                 "others")
      ->check(CLI::Range(int64_t{1}, int64_t{86400}))
      ->capture_default_str()
      ->group(kRare);
  app.callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace nsvq
