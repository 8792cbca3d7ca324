#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/bench/bench.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_stream.h"
#include "nsvq/tokens/tokenize.h"

namespace nsvq {

namespace {
struct BenchTokenizeArguments {
  Sources data;
  std::string model, device = "auto";
  JsonArgument json;
  std::vector<std::string> overrides;
  int64_t batch_size = 0, limit = 0;
  int rounds = 10;
  SharedProbe probe;
};

/// The model to time, and the loader's options.
struct Subject {
  explicit Subject(const BenchTokenizeArguments& arguments);

  InferenceSession session;
  LoaderOptions loader;
};

/// A trained model, or one with random weights from a recipe.
LoadedModel subject_model(const BenchTokenizeArguments& arguments, c10::Device device) {
  const bool recipe = arguments.model.ends_with(".yaml") || arguments.model.ends_with(".yml");
  if (recipe) {
    LoadedModel model{load_config(arguments.model, arguments.overrides), nullptr, {}};
    model.tokenizer = make_tokenizer(model.config, device);
    return model;
  }
  if (!arguments.overrides.empty()) {
    throw UserError("{}: settings such as {} need a recipe; a trained model has its own",
                    arguments.model, arguments.overrides.front());
  }
  return load_model_for_inference(arguments.model);
}

Subject::Subject(const BenchTokenizeArguments& arguments)
    : session(subject_model(arguments, choose_device(arguments.device)),
              choose_device(arguments.device)),
      loader(session.loader_options()) {
  loader.batch_size =
      arguments.batch_size > 0 ? arguments.batch_size : session.batch_size(loader.transform);
}

/// Prints results as rows of a table and keeps them for a JSON file.
class Figures {
 public:
  Figures(const Subject& subject, Json& json) : batch_(subject.loader.batch_size), json_(json) {
    fmt::print("| part, alone | images/s | ms a batch |\n|---|---|---|\n");
  }

  void add(const std::string& name, double images_per_second, const std::string& note = "") {
    fmt::print("| {}{} | {:.1f} | {:.3f} |\n", name, note, images_per_second,
               1e3 * static_cast<double>(batch_) / images_per_second);
    json_["parts"][name] = images_per_second;
  }

  /// Times work on one batch.
  void time(const std::string& name, const Work& work, c10::Device device, int rounds) {
    const auto taken = time_work(work, device, rounds);
    if (taken) add(name, 1e3 * static_cast<double>(batch_) / taken->milliseconds);
  }

 private:
  int64_t batch_;
  Json& json_;
};

/// Times work on a batch, prints its line and adds its figures with the memory that it takes.
void bench_batch(const std::string& what, const Work& work, Subject& subject, int rounds,
                 Json& json) {
  const int64_t batch = subject.loader.batch_size;
  const auto device = subject.session.device();
  const auto taken = time_work(work, device, rounds);
  if (!taken) throw RunError("a batch of {} does not fit into the device's memory", batch);
  const double rate = 1e3 * static_cast<double>(batch) / taken->milliseconds;
  const MemoryUse memory(device);
  fmt::print("{}, {}, batch {}: {:.1f} images/s {}, {}\n", describe(device),
             name_of(subject.session.tokenizer()->precision), batch, rate, what, memory.text());
  json["images_per_second"] = rate;
  json["milliseconds"] = taken->milliseconds;
  memory.add_to(json);
}

/// Times encoding of images that are already on the device: the upper limit for `tokenize`. Returns
/// their tokens.
torch::Tensor bench_resident(Subject& subject, const torch::Tensor& images,
                             const BenchTokenizeArguments& arguments, Json& json) {
  auto tokenizer = subject.session.tokenizer();
  const auto work = [&] { HostCopy(tokenizer->encode_without_waiting(images)); };
  for (int i = 0; i < 3; ++i) work();
  arguments.probe->call_once(work);
  bench_batch("on resident images", work, subject, arguments.rounds, json);
  arguments.probe->show_rate(json["milliseconds"].get<double>(), images.size(0), "image", json);
  fmt::print("\n");
  arguments.probe->show_kernels(work, subject.session.device(), json);
  return tokenizer->encode(images);
}

/// Images per second of `pass`, which goes through a source and returns its number of images.
double rate_of(const std::function<int64_t()>& pass) {
  const auto start = std::chrono::steady_clock::now();
  const auto images = static_cast<double>(pass());
  return images / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Images per second when writing shards of random tokens as `tokenize` does.
double writing_rate(Subject& subject, int64_t shard_size) {
  const int64_t side = subject.session.config().data.size / subject.session.stride();
  const int64_t codes = subject.session.tokenizer()->quantizer->codes();
  const TokenShard shard{at::randint(codes, {shard_size, side, side}, at::kLong),
                         std::vector<int64_t>(shard_size, -1),
                         std::vector<std::string>(shard_size, "folder/image-00000000.jpg")};
  const TemporaryFolder folder;
  constexpr int shards = 4;
  return rate_of([&] {
    for (int i = 0; i < shards; ++i) {
      const auto path = folder / token_shard_name(i);
      write_token_shard(path, shard, codes);
      describe_shard(path);
    }
    return shards * shard_size;
  });
}

/// The number of images in what `next` of a loader or a stream of tokens gives.
template <typename Batches>
int64_t count_images(Batches& batches) {
  int64_t images = 0;
  while (const auto batch = batches.next()) images += std::ssize(batch->indices);
  return images;
}

/// Times `tokenize` from beginning to end.
double tokenizing_rate(Subject& subject, const std::shared_ptr<const Source>& source,
                       TokenizeOptions options) {
  const TemporaryFolder folder;
  options.out = folder / "tokens";
  return rate_of([&] {
    int64_t images = 0;
    for (const auto& shard : tokenize(subject.session, source, options).shards) {
      images += shard.images;
    }
    return images;
  });
}

/// Times the stages that `tokenize` runs concurrently, then `tokenize` itself.
void bench_data(Subject& subject, const BenchTokenizeArguments& arguments, Figures& figures,
                Json& json) {
  const auto source = limited(open_source(arguments.data), arguments.limit);
  Loader loader(source, subject.loader);
  const auto load = [&] {
    loader.start(0);
    return count_images(loader);
  };
  load();  // fills the page cache
  const double loaded = rate_of(load);
  figures.add("loader", loaded,
              fmt::format(" ({:.1f} images/s a thread)", loaded / subject.loader.threads));
  figures.add("loader and encoder", rate_of([&] {
                TokenStream stream(subject.session.tokenizer(), source, subject.loader);
                return count_images(stream);
              }));
  TokenizeOptions options;
  options.source = arguments.data.text();
  options.loader = subject.loader;
  figures.add("writing", writing_rate(subject, options.shard_size));
  const double rate = tokenizing_rate(subject, source, options);
  fmt::print("\n{} of {}, tokenize from beginning to end: {:.1f} images/s\n",
             count_of(source->size(), "image"), arguments.data.text(), rate);
  json["data"] = {{"source", arguments.data.text()},
                  {"images", source->size()},
                  {"threads", subject.loader.threads},
                  {"loader_per_thread", loaded / subject.loader.threads},
                  {"images_per_second", rate}};
}

void run_bench_tokenize(const BenchTokenizeArguments& arguments) {
  JsonOutput output(arguments.json);
  const torch::NoGradGuard no_grad;
  Subject subject(arguments);
  arguments.probe->check(subject.session.device());
  subject.session.require_tokens();
  Json json = {{"device", describe(subject.session.device())},
               {"precision", name_of(subject.session.tokenizer()->precision)},
               {"batch_size", subject.loader.batch_size}};
  {
    const AutocastCacheGuard cached_casts;
    const auto images = random_images(subject.loader.batch_size, subject.session.config().data.size,
                                      subject.session.device());
    const auto tokens = bench_resident(subject, images, arguments, json);
    const auto decode = [&] { subject.session.decode(tokens); };
    bench_batch("decoded from resident tokens", decode, subject, arguments.rounds, json["decode"]);
    fmt::print("\n");
    Figures figures(subject, json);
    const auto latents = subject.session.tokenizer()->to_latents(images);
    figures.time(
        "encoder", [&] { subject.session.tokenizer()->to_latents(images); },
        subject.session.device(), arguments.rounds);
    figures.time(
        "search", [&] { subject.session.tokenizer()->quantizer->encode_without_waiting(latents); },
        subject.session.device(), arguments.rounds);
    if (!arguments.data.items.empty()) bench_data(subject, arguments, figures, json);
  }
  output.write(json);
}

}  // namespace

void declare_bench_tokenize(CLI::App& app, const SharedProbe& probe) {
  const auto arguments = std::make_shared<BenchTokenizeArguments>();
  arguments->probe = probe;
  app.add_option("MODEL", arguments->model,
                 "a run, a checkpoint or a model file, or a recipe (.yaml) with random weights")
      ->required();
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  declare_data(app, arguments->data,
               "also time `tokenize` on these images (to a temporary folder): folders, tar shards "
               "or builtin");
  declare_limit(app, arguments->limit);
  declare_device(app, arguments->device);
  declare_batch_size(app, arguments->batch_size,
                     "images per batch (default: as `nsvq tokenize` chooses)");
  declare_rounds_argument(app, arguments->rounds);
  probe->declare(app);
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_tokenize(*arguments); });
}

}  // namespace nsvq
