#include <CLI/CLI.hpp>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/generate/generate.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace {

/// The model's settings of sampling, overridden by the command line.
void apply_arguments(LoadedGenerator& generator, const GenerateArguments& arguments) {
  auto& config = generator.config;
  auto& sampling = config.sampling;
  if (arguments.guidance >= 0) {
    check_guidance(config.told(), arguments.guidance, "--guidance");
    sampling.guidance = arguments.guidance;
  }
  if (arguments.steps > 0) sampling.steps = arguments.steps;
  if (arguments.temperature >= 0) sampling.temperature = arguments.temperature;
  if (arguments.top_k >= 0) sampling.top_k = arguments.top_k;
  if (arguments.top_p >= 0) sampling.top_p = arguments.top_p;
  check_sampling(sampling, config.generator, generator.grid);
  labels_for(config.told(), wanted_class(arguments.label), {});
}

/// LlamaGen's way of resizing samples: bicubic, without a filter before it.
torch::Tensor resized(const torch::Tensor& images, int64_t side) {
  return at::upsample_bicubic2d(images, {side, side}, /*align_corners=*/false).clamp(-1, 1);
}

}  // namespace

void declare_resize(CLI::App& app, GenerateArguments& arguments) {
  app.add_option("--resize", arguments.resize,
                 "side in pixels to which samples are resized (bicubic, without antialiasing, as "
                 "LlamaGen evaluates images of 384 at 256)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{8}, int64_t{4096}))
      ->group(kRare);
}

void declare_generate_arguments(CLI::App& app, GenerateArguments& arguments) {
  declare_sampled_model(app, arguments);
  declare_device(app, arguments.device);
  app.add_option("--guidance", arguments.guidance,
                 "W of u + W (c - u), u without the class, 1 without guidance (default: the "
                 "model's); programs with c + W (c - u) call it W - 1")
      ->check(check_number(Range::between(0, 1000)));
  app.add_option("--steps", arguments.steps,
                 "of a masked generator (default: the model's); the setting sampling.steps")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--temperature", arguments.temperature,
                 "by which logits are divided (default: the model's)")
      ->check(check_number(Range::above(0)));
  app.add_option("--top-k", arguments.top_k,
                 "sample from the K likeliest codes, 0: all (default: the model's)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->group(kRare);
  app.add_option("--top-p", arguments.top_p,
                 "sample from the likeliest codes of total probability P (default: the model's)")
      ->check(check_number(Range::between(0, 1)))
      ->group(kRare);
  declare_sampling(app, arguments);
  app.get_option("--seed")->description(
      "image i of a seed is always the same; on a CPU in fp32 whatever the batch size, on a GPU "
      "for one batch size");
}

std::unique_ptr<GeneratorSession> open_generator(const GenerateArguments& arguments,
                                                 const Launch& launch) {
  note_batch_size("--batch-size ", arguments.batch_size);
  auto generator = load_generator(arguments.model);
  apply_arguments(generator, arguments);
  return std::make_unique<GeneratorSession>(
      std::move(generator),
      GeneratorSession::Options{.tokenizer = arguments.tokenizer,
                                .device = choose_device(arguments.device, launch.local_rank),
                                .threads = default_threads(launch.local_size),
                                .batch_size = arguments.batch_size});
}

GenerationRequest request_tokens(const GeneratorSession& session,
                                 const GenerateArguments& arguments, int64_t first, int64_t end) {
  GenerationRequest request;
  request.seed = arguments.seed;
  for (int64_t i = first; i < end; ++i) request.indices.push_back(i);
  request.labels = labels_for(session.config().told(), wanted_class(arguments.label),
                              request.indices, arguments.seed);
  return request;
}

SampledModel sampled_model(GeneratorSession& session, const GenerateArguments& arguments) {
  SampledModel model;
  model.file = session.generator().file.string();
  model.config = session.config();
  model.device = session.device();
  model.height = arguments.resize > 0 ? arguments.resize : session.image_height();
  model.width = arguments.resize > 0 ? arguments.resize : session.image_width();
  model.config.data.size = model.height;  // to which images of a reference are resized
  model.batch_size = arguments.batch_size;
  model.images = [&session, arguments](int64_t first, int64_t end) {
    const auto images = session.sample(request_tokens(session, arguments, first, end));
    return arguments.resize > 0 ? resized(images, arguments.resize) : images;
  };
  return model;
}

std::string describe_sampling(const GeneratorSession& session, const GenerateArguments& arguments) {
  const auto& config = session.config();
  const auto& sampling = config.sampling;
  auto text = fmt::format("{}, {} steps", config.generator.family,
                          sampling_steps(sampling, config.generator, session.grid()));
  if (config.classes > 0) {
    text += fmt::format(", class {}, guidance {}", arguments.label, sampling.guidance);
  }
  text += fmt::format(", temperature {}", sampling.temperature);
  if (sampling.top_k > 0) text += fmt::format(", top-k {}", sampling.top_k);
  if (sampling.top_p < 1) text += fmt::format(", top-p {}", sampling.top_p);
  if (sampling.redraw) text += ", tokens drawn anew";
  if (arguments.resize > 0) text += fmt::format(", resized to {}", arguments.resize);
  return text;
}

Json sampling_json(const GeneratorSession& session, const GenerateArguments& arguments) {
  auto config = session.config();  // a table binds to what it could change
  Json json = {{"family", config.generator.family}};
  json.update(settings_to_json(option_table(config)).at("sampling"));
  json["steps"] = sampling_steps(config.sampling, config.generator, session.grid());
  json["class"] = config.classes > 0 ? Json(arguments.label) : Json();
  json["seed"] = arguments.seed;
  if (arguments.resize > 0) json["resize"] = arguments.resize;
  return json;
}

}  // namespace nsvq
