#include <CLI/CLI.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/generate/generate.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npy.h"

namespace nsvq {

namespace {

struct GenerateSampleArguments : GenerateArguments {
  int64_t count = 64;
  std::string out;
  bool force = false;
};

bool names_tokens(const std::string& out) { return out.ends_with(".npy"); }

/// What the pictures depend on. On a GPU the size of batches may change the last bit.
ResumableFolder::Settings generated_settings(const GeneratorSession& session,
                                             const GenerateArguments& arguments) {
  const bool cpu = session.device().is_cpu();
  return {{"command", "generate sample"},
          {"model", session.sha256()},
          {"sampling", sampling_json(session, arguments).dump()},
          {"batch size", cpu ? "any" : fmt::to_string(arguments.batch_size)},
          {"precision", session.config().train.precision},
          {"device", cpu ? "cpu" : "cuda"}};
}

/// A file of int32 [n, h, w], or [n, length] for grids of one row.
void sample_tokens_file(GeneratorSession& session, const GenerateSampleArguments& arguments,
                        Group& group) {
  const auto& grid = session.grid();
  const Samples samples{.make =
                            [&](int64_t first, int64_t end) {
                              return session
                                  .sample_tokens(request_tokens(session, arguments, first, end))
                                  .to(at::kInt);
                            },
                        .batch = arguments.batch_size,
                        .shape = {grid.height, grid.width},
                        .type = at::kInt};
  std::vector<torch::Tensor> parts;
  sample_over_ranks(
      samples, group, 0, arguments.count,
      [&](const torch::Tensor& rows, int64_t /*first*/) { parts.push_back(rows.clone()); });
  if (!group.leads()) return;
  auto all = at::cat(parts).contiguous();
  if (grid.height == 1) all = all.squeeze(1);
  auto text = npy_header(all);
  text.append(static_cast<const char*>(all.data_ptr()), all.nbytes());
  write_text(arguments.out, text);
}

int64_t sample_to(GeneratorSession& session, const GenerateSampleArguments& arguments,
                  Group& group) {
  if (names_tokens(arguments.out)) {
    sample_tokens_file(session, arguments, group);
    return arguments.count;
  }
  return write_samples(sampled_model(session, arguments), arguments.out, arguments.count,
                       generated_settings(session, arguments), group);
}

void run_generate_sample(const GenerateSampleArguments& arguments) {
  if (names_tokens(arguments.out)) {
    check_output_files({{"--out", arguments.out}}, arguments.force);
  } else {
    check_sample_output(arguments.out, arguments.force);
  }
  work_on_ranks(arguments, [&](const Launch& launch, Group& group) {
    const auto session = open_generator(arguments, launch);
    const auto start = std::chrono::steady_clock::now();
    const int64_t images = sample_to(*session, arguments, group);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!group.leads()) return;
    fmt::print("{}\n", arguments.out);
    const double rate = static_cast<double>(images) / elapsed.count();
    fmt::print("{} images in {:.1f} s: {:.4g} images/s, {:.4g} tokens/s{}\n", images,
               elapsed.count(), rate, rate * static_cast<double>(session->grid().positions()),
               names_tokens(arguments.out) ? "" : ", decoding and writing included");
  });
}

}  // namespace

void declare_generate_sample(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateSampleArguments>();
  declare_generate_arguments(app, *arguments);
  declare_resize(app, *arguments);
  declare_count(app, arguments->count, 1);
  declare_sample_output(app, arguments->out, arguments->force, "FILE.npy for tokens, ");
  app.callback([arguments] { run_generate_sample(*arguments); });
}

}  // namespace nsvq
