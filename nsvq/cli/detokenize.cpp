#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/io/file.h"
#include "nsvq/io/sha256.h"
#include "nsvq/io/token_shard.h"
#include "nsvq/tokenizer/detokenize.h"
#include "nsvq/tokenizer/picture_names.h"
#include "nsvq/tokenizer/picture_output.h"

namespace nsvq {

namespace {

struct DetokenizeArguments {
  std::string model, tokens, out, format = "png", device = "auto";
  int64_t batch_size = 0;
  bool force = false;
};

/// A name for the picture of each image. All are known before the first is written: names that no
/// folder can hold leave nothing half done.
std::vector<std::string> names_of_pictures(const DetokenizeArguments& arguments,
                                           const TokenManifest& manifest,
                                           const std::string& ending) {
  std::vector<std::string> keys;
  for (const auto& record : manifest.shards) {
    const auto path = std::filesystem::path(arguments.tokens) / record.file;
    auto shard = read_token_shard(path, manifest.settings.codes);
    std::move(shard.keys.begin(), shard.keys.end(), std::back_inserter(keys));
  }
  auto names = picture_names(keys, ending);
  if (!names_tar(arguments.out)) require_folder_names(names, arguments.out);
  return names;
}

/// What the pictures depend on: the same tokens decoded in other batches or on another device may
/// differ in the last bit.
ResumableFolder::Settings picture_settings(const DetokenizeArguments& arguments,
                                           const std::string& model_sha256, int64_t batch,
                                           c10::Device device) {
  Sha256 manifest;
  manifest.add(read_file(std::filesystem::path(arguments.tokens) / kTokenManifest));
  return {{"command", "detokenize"},
          {"model", model_sha256},
          {"tokens", manifest.hex()},
          {"format", arguments.format},
          {"batch size", fmt::to_string(batch)},
          {"device", device.is_cpu() ? "cpu" : "cuda"}};
}

void run_detokenize(const DetokenizeArguments& arguments) {
  InferenceSession session(arguments.model, arguments.device);
  session.require_tokens();
  const auto manifest = open_tokens(arguments.tokens, session.tokenizer(), arguments.force);
  const int64_t batch =
      arguments.batch_size > 0 ? arguments.batch_size : manifest.settings.batch_size;
  const auto settings =
      picture_settings(arguments, model_sha256(session.tokenizer()), batch, session.device());

  const std::string ending = arguments.format == "jpeg" ? ".jpg" : ".png";
  const auto names = names_of_pictures(arguments, manifest, ending);
  const auto output = open_picture_output(arguments.out, settings);
  int64_t done = output->done();
  if (done > 0) log("going on after the first {} pictures", done);
  catch_interrupts();
  detokenize(session, arguments.tokens, manifest, batch, done,
             [&](const torch::Tensor& images, const std::vector<std::string>&) {
               const auto files = encode_pictures(images, ending);
               for (size_t i = 0; i < files.size(); ++i) {
                 output->add(names.at(done + static_cast<int64_t>(i)), files[i]);
               }
               output->advance(done += std::ssize(files));
               // Thrown, so that the output records how far it came or, a tar file, is removed.
               if (interrupted()) {
                 throw RunError("stopped before {} was complete{}", arguments.out,
                                output->done() > 0 ? "; the same command completes it" : "");
               }
             });
  output->finish();
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_detokenize(CLI::App& app) {
  const auto arguments = std::make_shared<DetokenizeArguments>();
  app.add_option("RUN_OR_CHECKPOINT", arguments->model,
                 "the model that made the tokens: a run's folder, a checkpoint folder or a "
                 "model.safetensors")
      ->required();
  app.add_option("--tokens", arguments->tokens, "folder that `nsvq tokenize` wrote")->required();
  app.add_option(
         "--out", arguments->out,
         "FILE.tar, or a folder (new, empty, or left incomplete by this command), for pictures "
         "named after the images")
      ->required();
  app.add_option("--format", arguments->format, "png or jpeg (quality 95)")
      ->check(CLI::IsMember({"png", "jpeg"}))
      ->capture_default_str();
  app.add_option("--device", arguments->device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--batch-size", arguments->batch_size,
                 "images at a time (default: as when the tokens were made)")
      ->check(CLI::Range(1, 65536));
  app.add_flag("--force", arguments->force, "decode tokens of another model all the same");
  app.callback([arguments] { run_detokenize(*arguments); });
}

}  // namespace nsvq
