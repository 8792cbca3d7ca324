#include "nsvq/cli/sampling/sampled_model.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/recipe/classes.h"

namespace nsvq {

int64_t wanted_class(const std::string& text) {
  if (text == "all") return kAllClasses;
  if (text == "random") return kRandomClasses;
  if (const auto number = parse_decimal(text)) return *number;
  throw UserError("--class {}: name a class by its number, or all or random", quote(text));
}

void declare_sampled_model(CLI::App& app, SamplingArguments& arguments) {
  app.add_option("MODEL", arguments.model,
                 "a run's folder, a checkpoint, an exported folder or a model.safetensors")
      ->required();
  app.add_option("--tokenizer", arguments.tokenizer,
                 "the model's tokenizer, if it is not where it was in training")
      ->type_name("MODEL")
      ->group(kRare);
}

void declare_sampling(CLI::App& app, SamplingArguments& arguments) {
  app.add_option(
         "--class", arguments.label,
         "a number, all in turn, or random; the class of the images, for a model with classes")
      ->capture_default_str();
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

void work_on_ranks(const SamplingArguments& arguments, const RankWork& work) {
  if (arguments.gpus > 1) start_on_gpus(arguments.gpus, arguments.device);
  const auto launch = launch_from_environment();
  const auto group = join_ranks(launch, {.timeout = arguments.timeout, .backend = "gloo"},
                                "start the command again");
  work_as_rank(*group, [&] { work(launch, *group); });
}

void sample_over_ranks(const Samples& samples, Group& group, int64_t first, int64_t end,
                       const UseRows& use) {
  const int64_t batch = samples.batch;
  Progress progress("sample", end, "images", 30, first);
  for (; first < end; first += batch * group.size()) {
    const auto begin_of = [&](int64_t rank) { return first + rank * batch; };
    const auto size_of = [&](int64_t rank) {
      return std::clamp<int64_t>(end - begin_of(rank), 0, batch);
    };
    const int64_t own = begin_of(group.rank()), count = size_of(group.rank());
    torch::Tensor rows;
    if (count > 0) rows = samples.make(own, own + count).cpu();
    if (group.alone()) {
      use(rows, own);
    } else {
      auto shape = samples.shape;
      shape.insert(shape.begin(), batch);
      const auto padded = at::zeros(shape, samples.type);
      if (count > 0) padded.narrow(0, 0, count).copy_(rows);
      const auto all = gather(group, padded);
      for (int64_t rank = 0; group.leads() && rank < group.size() && size_of(rank) > 0; ++rank) {
        use(all[rank].narrow(0, 0, size_of(rank)), begin_of(rank));
      }
    }
    progress.update(std::min(first + batch * group.size(), end));
  }
  progress.finish();
}

}  // namespace nsvq
