#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/diffusion/diffusion_session.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/picture_output.h"

namespace nsvq {

namespace {

struct DiffusionSampleArguments : SampleArguments {
  int64_t count = 64;
  std::string out;
  bool force = false;
};

bool names_picture(const std::string& out) {
  const auto ending = plain_ending(out);
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

/// Samples one picture, as square as the number of images allows. One that would be too large is
/// refused before the first sample.
void sample_grid_picture(DiffusionSession& session, const DiffusionSampleArguments& arguments,
                         Group& group) {
  const auto columns =
      static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(arguments.count))));
  const auto side = columns * static_cast<uint64_t>(session.config().data.size);
  check_picture_size(side, side, {}, "a grid", "--out " + arguments.out);
  std::vector<std::vector<Image>> rows;
  sample_over_ranks(session, arguments, group, 0, arguments.count,
                    [&](const torch::Tensor& images, int64_t /*first*/) {
                      for (const auto& image : images.unbind()) {
                        if (rows.empty() || rows.back().size() == columns) rows.emplace_back();
                        rows.back().push_back(to_image(image));
                      }
                    });
  if (group.leads()) write_image(arguments.out, make_grid(rows));
}

/// What the pictures depend on. The size of batches and the device may change the last bit.
ResumableFolder::Settings sampled_settings(const DiffusionSession& session,
                                           const DiffusionSampleArguments& arguments) {
  const auto& config = session.config();
  const auto& sample = config.sample;
  return {{"command", "diffusion sample"},
          {"model", session.sha256()},
          {"sampler", fmt::format("{} {} {} {} {}", sample.sampler, sample.steps, sample.eta,
                                  sample.spacing, sample.last)},
          {"class", arguments.label},
          {"guidance", fmt::to_string(config.guidance)},
          {"seed", fmt::to_string(arguments.seed)},
          {"batch size", fmt::to_string(arguments.batch_size)},
          {"precision", config.train.precision},
          {"device", session.device().is_cpu() ? "cpu" : "cuda"}};
}

std::string sample_name(int64_t image) { return fmt::format("{:06}.png", image); }

/// Samples files NNNNNN.png; a folder that was left incomplete is completed.
void sample_files(DiffusionSession& session, const DiffusionSampleArguments& arguments,
                  Group& group) {
  // An incomplete tar is removed. With several processes the others would wait for this one.
  const bool stops = names_tar(arguments.out) && group.size() == 1;
  if (stops) catch_interrupts(OnStop::discards);
  std::unique_ptr<PictureOutput> output;  // on rank 0
  if (group.leads()) {
    output = open_picture_output(arguments.out, sampled_settings(session, arguments));
    output->require_done(arguments.count, sample_name);
  }
  const auto done = at::tensor({output ? output->done() : int64_t{0}}, at::kLong);
  group.broadcast({done});
  sample_over_ranks(session, arguments, group, done.item<int64_t>(), arguments.count,
                    [&](const torch::Tensor& images, int64_t first) {
                      const auto files = encode_pictures(images, ".png");
                      for (size_t i = 0; i < files.size(); ++i) {
                        output->add(sample_name(first + static_cast<int64_t>(i)), files[i]);
                      }
                      output->advance(first + std::ssize(files));
                      if (stops) throw_if_interrupted();
                    });
  if (output) output->finish();
}

void run_diffusion_sample(const DiffusionSampleArguments& arguments) {
  const bool picture = names_picture(arguments.out);
  if (picture || names_tar(arguments.out)) {
    check_output_files({{"--out", arguments.out}}, arguments.force);
  } else {
    check_output_folder(arguments.out);
    require_fillable(arguments.out);
  }
  work_on_ranks(arguments, [&](const Launch& launch, Group& group) {
    auto session = open_diffusion(arguments, launch);
    (picture ? sample_grid_picture : sample_files)(session, arguments, group);
    if (group.leads()) fmt::print("{}\n", arguments.out);
  });
}

struct DiffusionExportArguments {
  SampleArguments model;
  std::string out;
};

void run_diffusion_export(const DiffusionExportArguments& arguments) {
  check_output_folder(arguments.out);
  auto model = arguments.model;
  model.device = "cpu";
  const auto session = open_diffusion(model);
  export_diffusion(session.model(), session.tokenizer(), arguments.out);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_diffusion_sample(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionSampleArguments>();
  declare_sample_arguments(app, *arguments);
  declare_count(app, arguments->count, 1);
  app.add_option("--out", arguments->out,
                 "FILE.png for one grid, FILE.tar or a folder for pictures 000000.png, ...; the "
                 "folder is new, empty, or left incomplete by this command")
      ->required()
      ->type_name("PATH");
  declare_force(app, arguments->force);
  app.callback([arguments] { run_diffusion_sample(*arguments); });
}

void declare_diffusion_export(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionExportArguments>();
  declare_diffusion_model(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "a new folder for the network, its tokenizer and their settings")
      ->required()
      ->type_name("DIR");
  app.callback([arguments] { run_diffusion_export(*arguments); });
}

}  // namespace nsvq
