#include <CLI/CLI.hpp>
#include <algorithm>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"

namespace nsvq {

namespace {

/// The number that --class names, or -1 for all classes in turn.
int64_t wanted_class(const std::string& text) {
  if (text == "all") return -1;
  if (const auto number = parse_decimal(text)) return *number;
  throw UserError("--class {}: name a class by its number, or all", quote(text));
}

/// The model's settings of sampling, overridden by the command line.
DiffusionConfig with_arguments(DiffusionConfig config, const SampleArguments& arguments) {
  auto& sample = config.sample;
  if (!arguments.sampler.empty() && arguments.sampler != sample.sampler) {
    sample.sampler = arguments.sampler;
    if (arguments.eta < 0) sample.eta = 0;  // the model's is for its own sampler
  }
  if (!arguments.spacing.empty()) sample.spacing = arguments.spacing;
  if (!arguments.last.empty()) sample.last = arguments.last;
  if (arguments.steps > 0) sample.steps = arguments.steps;
  if (arguments.eta >= 0) sample.eta = arguments.eta;
  if (arguments.guidance >= 0) {
    check_guidance(config, arguments.guidance, "--guidance");
    config.guidance = arguments.guidance;
  }
  plan_sampling(make_noise_schedule(config.noise), sample);  // throws for what does not fit
  labels_for(config, wanted_class(arguments.label), {});
  return config;
}

}  // namespace

void declare_diffusion_model(CLI::App& app, SampleArguments& arguments) {
  app.add_option("MODEL", arguments.model,
                 "a run's folder, a checkpoint, an exported folder or a model.safetensors")
      ->required();
  app.add_option("--tokenizer", arguments.tokenizer,
                 "the model's tokenizer, if it is not where it was in training")
      ->type_name("MODEL")
      ->group(kRare);
}

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments) {
  declare_diffusion_model(app, arguments);
  declare_device(app, arguments.device);
  app.add_option("--sampler", arguments.sampler,
                 "ddim, ddpm or dpm-solver++ (default: the model's); the setting sample.sampler")
      ->check(CLI::IsMember(names_of(sampler_kinds())));
  app.add_option("--steps", arguments.steps,
                 "steps (default: the model's); the setting sample.steps")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--spacing", arguments.spacing,
                 "of times: trailing, leading or compvis (default: the model's sample.spacing)")
      ->check(CLI::IsMember(kSpacings))
      ->group(kRare);
  app.add_option("--last", arguments.last,
                 "noise after the last step: none (one) or the first time's (first) (default: the "
                 "model's sample.last)")
      ->check(CLI::IsMember(kLasts))
      ->group(kRare);
  app.add_option("--eta", arguments.eta, "ddim: share of fresh noise (default: the model's)")
      ->check(check_number(Range::between(0, 1)))
      ->group(kRare);
  app.add_option("--class", arguments.label,
                 "a class by its number, or all in turn; for a model with classes")
      ->capture_default_str();
  app.add_option("--guidance", arguments.guidance,
                 "weight of the class, 1 without guidance (default: the model's)")
      ->check(check_number(Range::between(0, 1000)));
  app.add_option("--seed", arguments.seed, "image i of a seed is always the same")
      ->check(check_seed)
      ->capture_default_str();
  app.add_option("--batch-size", arguments.batch_size, "images per batch, in each process")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(kRare);
  declare_gpus(app, arguments.gpus, "sample");
  declare_timeout(app, arguments.timeout);
}

void declare_count(CLI::App& app, int64_t& count, int64_t least) {
  app.add_option("--count", count, "number of images to sample")
      ->check(CLI::Range(least, int64_t{100000000}))
      ->capture_default_str();
}

void work_on_ranks(const SampleArguments& arguments, const RankWork& work) {
  if (arguments.gpus > 1) start_on_gpus(arguments.gpus, arguments.device);
  const auto launch = launch_from_environment();
  const auto group = join_ranks(launch, {.timeout = arguments.timeout, .backend = "gloo"},
                                "start the command again");
  work_as_rank(*group, [&] { work(launch, *group); });
}

void sample_over_ranks(DiffusionSession& session, const SampleArguments& arguments, Group& group,
                       int64_t first, int64_t end, const UseImages& use) {
  const int64_t batch = arguments.batch_size, side = session.config().data.size;
  Progress progress("sample", end, "images", 30, first);
  for (; first < end; first += batch * group.size()) {
    const auto begin_of = [&](int64_t rank) { return first + rank * batch; };
    const auto size_of = [&](int64_t rank) {
      return std::clamp<int64_t>(end - begin_of(rank), 0, batch);
    };
    const int64_t own = begin_of(group.rank()), count = size_of(group.rank());
    torch::Tensor images;
    if (count > 0) images = session.sample(request_images(session, arguments, own, own + count));
    if (group.alone()) {
      use(images, own);
    } else {
      const auto bytes = at::zeros({batch, 3, side, side}, at::kByte);
      if (count > 0) bytes.narrow(0, 0, count).copy_(to_bytes(images));
      const auto all = gather(group, bytes);
      for (int64_t rank = 0; group.leads() && rank < group.size() && size_of(rank) > 0; ++rank) {
        use(from_bytes(all[rank].narrow(0, 0, size_of(rank))), begin_of(rank));
      }
    }
    progress.update(std::min(first + batch * group.size(), end));
  }
  progress.finish();
}

DiffusionSession open_diffusion(const SampleArguments& arguments, const Launch& launch) {
  note_batch_size("--batch-size ", arguments.batch_size);
  auto model = load_diffusion(arguments.model);
  model.config = with_arguments(std::move(model.config), arguments);
  return DiffusionSession(std::move(model), arguments.tokenizer,
                          choose_device(arguments.device, launch.local_rank),
                          default_threads(launch.local_size));
}

SampleRequest request_images(const DiffusionSession& session, const SampleArguments& arguments,
                             int64_t first, int64_t end) {
  SampleRequest request;
  request.seed = arguments.seed;
  for (int64_t i = first; i < end; ++i) request.indices.push_back(i);
  request.labels = labels_for(session.config(), wanted_class(arguments.label), request.indices);
  return request;
}

}  // namespace nsvq
