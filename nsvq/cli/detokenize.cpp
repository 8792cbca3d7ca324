#include <CLI/CLI.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/cli/picture_output.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/parallel.h"
#include "nsvq/io/jpeg.h"
#include "nsvq/report/grid.h"
#include "nsvq/tokenizer/detokenize.h"

namespace nsvq {

namespace {

struct DetokenizeArguments {
  std::string model, tokens, out, format = "png", device = "auto";
  int64_t batch_size = 0;
  bool force = false;
};

using Bytes = std::vector<std::byte>;

/// The images [B, 3, H, W] as files, encoded side by side.
std::vector<Bytes> encode_all(const torch::Tensor& images, bool jpeg) {
  std::vector<Image> pictures;
  for (const auto& image : images.unbind()) pictures.push_back(to_image(image));
  std::vector<Bytes> files(pictures.size());
  parallel_tasks(std::ssize(pictures), [&](int64_t i) {
    files[i] = jpeg ? encode_jpeg(pictures[i], 95) : encode_png(pictures[i]);
  });
  return files;
}

void run_detokenize(const DetokenizeArguments& arguments) {
  InferenceSession session(arguments.model, arguments.device);
  const auto manifest = open_tokens(arguments.tokens, session.tokenizer(), arguments.force);

  const bool jpeg = arguments.format == "jpeg";
  const auto output = open_picture_output(arguments.out);
  PictureNames names(jpeg ? ".jpg" : ".png");
  catch_interrupts();
  const int64_t batch =
      arguments.batch_size > 0 ? arguments.batch_size : manifest.settings.batch_size;
  detokenize(session, arguments.tokens, manifest, batch,
             [&](const torch::Tensor& images, const std::vector<std::string>& keys) {
               const auto files = encode_all(images, jpeg);
               for (size_t i = 0; i < files.size(); ++i) {
                 output->add(names.name_for(keys[i]), files[i]);
               }
               // Thrown, so that a file under a temporary name goes too.
               if (interrupted()) throw RunError("stopped before {} was whole", arguments.out);
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
  app.add_option("--out", arguments->out,
                 "FILE.tar, or a folder (new or empty), for pictures named after the images")
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
