#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/picture_output.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

namespace {

struct DetokenizeArguments {
  NamedModel model;
  std::string tokens, out, format = "png", device = "auto";
  int64_t batch_size = 0;
  bool force = false, any_model = false;
};

std::string ending_of(const DetokenizeArguments& arguments) {
  return arguments.format == "jpeg" ? ".jpg" : ".png";
}

/// A name for the picture of each image, all before the first is written, since a folder may not be
/// able to hold them.
std::vector<std::string> names_of_pictures(const DetokenizeArguments& arguments,
                                           const TokenManifest& manifest) {
  std::vector<std::string> keys;
  for (const auto& record : manifest.shards) {
    const auto path = std::filesystem::path(arguments.tokens) / record.file;
    auto shard = read_token_shard(path, manifest.settings.codes);
    std::move(shard.keys.begin(), shard.keys.end(), std::back_inserter(keys));
  }
  auto names = picture_names(keys, ending_of(arguments));
  if (!names_tar(arguments.out)) {
    require_folder_names(names, arguments.out, "name a .tar file for --out");
  }
  return names;
}

/// What the pictures depend on. The size of batches and the device may change the last bit.
ResumableFolder::Settings picture_settings(const DetokenizeArguments& arguments,
                                           InferenceSession& session, int64_t batch,
                                           std::span<const std::byte> tokens) {
  Sha256 hash;
  hash.add(tokens);
  return {{"command", "detokenize"},
          {"model", model_sha256(session.tokenizer())},
          {"tokens", hash.hex()},
          {"format", arguments.format},
          {"batch size", fmt::to_string(batch)},
          {"device", session.device().is_cpu() ? "cpu" : "cuda"}};
}

/// Pictures on their way to --out.
class PictureWriter {
 public:
  PictureWriter(const DetokenizeArguments& arguments, const ResumableFolder::Settings& settings,
                int64_t images, const std::function<std::string(int64_t)>& name_of)
      : out_(arguments.out),
        ending_(ending_of(arguments)),
        output_(open_picture_output(arguments.out, settings)),
        done_(output_->done()) {
    output_->require_done(images, name_of);
    if (done_ > 0 && done_ < images) log("going on after the first {}", count_of(done_, "picture"));
    catch_interrupts(names_tar(arguments.out) ? OnStop::discards : OnStop::saves);
  }

  int64_t done() const { return done_; }

  /// Images [B, 3, H, W]; `name_of` gives the name of the i-th of them.
  template <typename NameOf>
  void add(const torch::Tensor& images, const NameOf& name_of) {
    const auto files = encode_pictures(images, ending_);
    for (size_t i = 0; i < files.size(); ++i) output_->add(name_of(i), files[i]);
    output_->advance(done_ += std::ssize(files));
    // Thrown, so that the output records how far it came or, a tar file, is removed.
    if (interrupted()) {
      log("stopped before {} was complete{}", out_,
          output_->done() > 0 ? "; the same command completes it" : "");
      throw Interrupted();
    }
  }
  void finish() { output_->finish(); }

 private:
  std::string out_, ending_;
  std::unique_ptr<PictureOutput> output_;
  int64_t done_;
};

/// Decodes tokens without a manifest; pictures are named by their index.
void detokenize_bare(const DetokenizeArguments& arguments, InferenceSession& session) {
  const auto tokens = read_bare_tokens(arguments.tokens, session);
  const int64_t batch =
      arguments.batch_size > 0 ? arguments.batch_size : session.config().train.batch_size;
  note_batch_size("--batch-size ", batch);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(tokens.data_ptr()),
                                         tokens.nbytes());
  const auto name_of = [&](int64_t i) { return fmt::format("{:06}{}", i, ending_of(arguments)); };
  PictureWriter writer(arguments, picture_settings(arguments, session, batch, bytes),
                       tokens.size(0), name_of);
  decode_bare_tokens(
      session, tokens, batch, writer.done(), [&](const torch::Tensor& images, int64_t first) {
        writer.add(images, [&](size_t i) { return name_of(first + static_cast<int64_t>(i)); });
      });
  writer.finish();
}

/// Throws UserError where --out is a tar that the tokens were made from.
void require_no_source(const std::string& out, const TokenManifest& manifest) {
  constexpr std::string_view kBetween = ", ";
  for (size_t begin = 0; begin < manifest.source.size();) {
    const size_t end = std::min(manifest.source.find(kBetween, begin), manifest.source.size());
    const auto item = NamedPart(manifest.source.substr(begin, end - begin)).source;
    require_unread({"--out", out}, {{"--tokens", item}});
    begin = end + kBetween.size();
  }
}

/// The tokens of --tokens. For one version --force also stands for --any-model.
TokenManifest opened_tokens(const DetokenizeArguments& arguments, InferenceSession& session) {
  const bool any = arguments.any_model || arguments.force;
  auto manifest =
      open_tokens(arguments.tokens, session.tokenizer(), any, "; --any-model decodes them anyway");
  if (any && !arguments.any_model &&
      manifest.settings.model_sha256 != model_sha256(session.tokenizer())) {
    log("nsvq detokenize: --force for tokens of another model is now --any-model");
  }
  return manifest;
}

void detokenize_folder(const DetokenizeArguments& arguments, InferenceSession& session) {
  const auto manifest = opened_tokens(arguments, session);
  require_no_source(arguments.out, manifest);
  const int64_t batch =
      arguments.batch_size > 0 ? arguments.batch_size : manifest.settings.batch_size;
  note_batch_size("--batch-size ", batch);
  const auto names = names_of_pictures(arguments, manifest);
  const auto text = read_file(std::filesystem::path(arguments.tokens) / kTokenManifest);
  PictureWriter writer(arguments, picture_settings(arguments, session, batch, text),
                       std::ssize(names), [&](int64_t i) { return names.at(i); });
  detokenize(session, arguments.tokens, manifest, batch, writer.done(),
             [&](const torch::Tensor& images, const std::vector<std::string>&) {
               const int64_t first = writer.done();
               writer.add(images, [&](size_t i) { return names.at(first + i); });
             });
  writer.finish();
}

void run_detokenize(const DetokenizeArguments& arguments) {
  if (names_tar(arguments.out)) {
    check_output_files({{"--out", arguments.out}}, arguments.force);
  } else {
    check_output_folder(arguments.out);
    require_fillable(arguments.out);
  }
  require_tokens_named(arguments.tokens);
  InferenceSession session(arguments.model.path(), arguments.device);
  session.require_tokens();
  const bool bare = names_bare_tokens(arguments.tokens);
  (bare ? detokenize_bare : detokenize_folder)(arguments, session);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_detokenize(CLI::App& app) {
  const auto arguments = std::make_shared<DetokenizeArguments>();
  declare_model(app, arguments->model);
  app.add_option("--tokens", arguments->tokens,
                 "folder of nsvq tokenize, FILE.npy, FILE.safetensors or -; files hold integers "
                 "[n, h, w] or [n, h*w], - is raw int32 on standard input, and their pictures are "
                 "named 000000, 000001, ...; of several crops of an image the central one is "
                 "decoded")
      ->required()
      ->type_name("PATH");
  app.add_option("--out", arguments->out,
                 "FILE.tar or a folder for pictures named after the images; the folder is new, "
                 "empty, or left incomplete by this command")
      ->required()
      ->type_name("PATH");
  declare_force(app, arguments->force);
  app.add_option("--format", arguments->format, "png or jpeg (quality 95)")
      ->check(CLI::IsMember({"png", "jpeg"}))
      ->capture_default_str();
  declare_device(app, arguments->device);
  declare_batch_size(app, arguments->batch_size,
                     "images per batch (default: as when the tokens were made)");
  app.add_flag("--any-model", arguments->any_model, "decode tokens of another model");
  app.callback([arguments] { run_detokenize(*arguments); });
}

}  // namespace nsvq
