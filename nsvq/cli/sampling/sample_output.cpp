#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/sampling/sampled_model.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/picture_output.h"

namespace nsvq {

namespace {

bool names_picture(const std::string& out) {
  const auto ending = plain_ending(out);
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

/// One picture, as square as the number of images allows. One that would be too large is refused
/// before the first sample.
void sample_grid_picture(const SampledModel& model, const std::string& out, int64_t count,
                         Group& group) {
  const auto columns = static_cast<uint64_t>(square_columns(count));
  check_picture_size(columns * static_cast<uint64_t>(model.width),
                     columns * static_cast<uint64_t>(model.height), {}, "a grid", "--out " + out);
  std::vector<Image> images;
  sample_over_ranks(samples_of(model), group, 0, count,
                    [&](const torch::Tensor& rows, int64_t /*first*/) {
                      for (const auto& image : from_bytes(rows).unbind()) {
                        images.push_back(to_image(image));
                      }
                    });
  if (group.leads()) write_image(out, make_square_grid(images));
}

std::string sample_name(int64_t image) { return fmt::format("{:06}.png", image); }

/// Files NNNNNN.png; a folder that was left incomplete is completed.
int64_t sample_files(const SampledModel& model, const std::string& out, int64_t count,
                     const ResumableFolder::Settings& settings, Group& group) {
  // An incomplete tar is removed. With several processes the others would wait for this one.
  const bool stops = names_tar(out) && group.size() == 1;
  if (stops) catch_interrupts(OnStop::discards);
  std::unique_ptr<PictureOutput> output;  // on rank 0
  if (group.leads()) {
    output = open_picture_output(out, settings);
    output->require_done(count, sample_name);
  }
  const auto done = at::tensor({output ? output->done() : int64_t{0}}, at::kLong);
  group.broadcast({done});
  const auto first = done.item<int64_t>();
  sample_over_ranks(samples_of(model), group, first, count,
                    [&](const torch::Tensor& rows, int64_t begin) {
                      const auto files = encode_pictures(from_bytes(rows), ".png");
                      for (size_t i = 0; i < files.size(); ++i) {
                        output->add(sample_name(begin + static_cast<int64_t>(i)), files[i]);
                      }
                      output->advance(begin + std::ssize(files));
                      if (stops) throw_if_interrupted();
                    });
  if (output) output->finish();
  return count - first;
}

}  // namespace

Samples samples_of(const SampledModel& model) {
  return {.make = [images = model.images](int64_t first,
                                          int64_t end) { return to_bytes(images(first, end)); },
          .batch = model.batch_size,
          .shape = {3, model.height, model.width}};
}

void check_sample_output(const std::string& out, bool force) {
  if (names_picture(out) || names_tar(out)) return check_output_files({{"--out", out}}, force);
  check_output_folder(out);
  require_fillable(out);
}

int64_t write_samples(const SampledModel& model, const std::string& out, int64_t count,
                      const ResumableFolder::Settings& settings, Group& group) {
  if (!names_picture(out)) return sample_files(model, out, count, settings, group);
  sample_grid_picture(model, out, count, group);
  return count;
}

void declare_sample_output(CLI::App& app, std::string& out, bool& force,
                           const std::string& others) {
  app.add_option("--out", out,
                 "FILE.png for one grid, " + others +
                     "FILE.tar or a folder for pictures 000000.png, ...; the folder is new, empty, "
                     "or left incomplete by this command")
      ->required()
      ->type_name("PATH");
  declare_force(app, force);
}

}  // namespace nsvq
