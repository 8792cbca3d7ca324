#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/tokenizer/evaluate.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/picture_output.h"
#include "nsvq/tokenizer/reconstruct.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ReconstructArguments {
  ModelArguments model;
  std::string out, fit;
  bool pairs = false, force = false;
  int64_t limit = 0;  ///< pictures, so that images that cannot be read do not count
};

const std::map<std::string, Fit> kFits = {
    {"resize", Fit::resize}, {"crop", Fit::crop}, {"pad", Fit::pad}};

bool names_image(const fs::path& path) {
  const auto ending = plain_ending(path.string());
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

/// One picture: images above their reconstructions. Returns the number of images.
int64_t write_grid(ModelOnData& opened, const ReconstructArguments& arguments) {
  opened.options.batch_size = arguments.limit > 0 ? arguments.limit : 8;
  Loader loader(opened.source, opened.options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("reconstruct: no usable image in the source");
  write_image(arguments.out,
              sample_grid(opened.session.tokenizer(), batch->images.to(opened.session.device())));
  return batch->images.size(0);
}

/// What the pictures depend on: other batches or another device may change the last bit.
ResumableFolder::Settings folder_settings(ModelOnData& opened,
                                          const ReconstructArguments& arguments) {
  const auto& transform = opened.options.transform;
  return {{"command", arguments.pairs ? "reconstruct --pairs" : "reconstruct"},
          {"model", model_sha256(opened.session.tokenizer())},
          {"names of images", keys_sha256(*opened.source)},
          {"size", fmt::format("{}x{}", transform.output_height(), transform.output_width())},
          {"fit", arguments.fit.empty() ? "square" : arguments.fit},
          {"limit", fmt::to_string(arguments.limit)},
          {"batch size", fmt::to_string(opened.options.batch_size)},
          {"precision", opened.session.config().train.precision},
          {"device", opened.session.device().is_cpu() ? "cpu" : "cuda"}};
}

int64_t pictures_wanted(const ModelOnData& opened, int64_t limit) {
  return limit > 0 ? std::min(limit, opened.source->size()) : opened.source->size();
}

void write_folder(ModelOnData& opened, const ReconstructArguments& arguments) {
  const torch::NoGradGuard no_grad;
  const int64_t total = pictures_wanted(opened, arguments.limit);
  const int64_t size = opened.options.batch_size;
  ReconstructionFolder folder(arguments.out, *opened.source, folder_settings(opened, arguments),
                              size, total);
  if (folder.complete()) return folder.finish();
  Progress progress("reconstruct", total, "images", 30, folder.pictures());
  Loader loader(opened.source, opened.options);
  loader.start(0, (folder.done() + size - 1) / size);
  while (folder.pictures() < total) {
    const auto batch = loader.next();
    if (!batch) {  // the images that are left are broken
      folder.advance(opened.source->size(), {});
      break;
    }
    auto images =
        as_rounded(opened.session.reconstruct(batch->images), opened.session.config().model);
    if (arguments.pairs) images = at::cat({batch->images.to(images.device()), images}, 3);
    const auto files = encode_pictures(images, ".png");
    for (size_t i = 0; i < files.size() && folder.pictures() < total; ++i) {
      folder.add(batch->indices[i], files[i]);
    }
    // Batches cover fixed ranges of indices, less the broken images.
    const int64_t end = (batch->indices.front() / size + 1) * size;
    folder.advance(std::min(end, opened.source->size()), batch->indices);
    progress.update(folder.pictures());
  }
  folder.finish();
  progress.update(total);  // counts broken images too
  progress.finish();
}

/// Errors name the image.
ReconstructedImage fitted(ModelOnData& opened, int64_t index, Fit fit) {
  const auto image = opened.source->load(index);
  try {
    return reconstruct_image(opened.session, image, fit);
  } catch (const UserError& error) {
    throw UserError("{}: {}", opened.source->key(index), error.what());
  }
}

/// The pair of an image; nothing, with a line in the log, if it is broken.
std::optional<ReconstructedImage> try_fitted(ModelOnData& opened, int64_t index, Fit fit) {
  try {
    return fitted(opened, index, fit);
  } catch (const UserError& error) {
    if (opened.options.on_error == OnError::stop) throw;
    opened.source->broken_log().report(index, error.what());
    return std::nullopt;
  }
}

/// Image and reconstruction side by side.
Image beside(const ReconstructedImage& pair) {
  const int width = pair.input.width, height = pair.input.height;
  Image both{2 * width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (const auto* image : {&pair.input, &pair.output}) {
      const auto row = image->pixels.begin() + std::ptrdiff_t{3} * width * y;
      both.pixels.insert(both.pixels.end(), row, row + std::ptrdiff_t{3} * width);
    }
  }
  return both;
}

void write_fitted_folder(ModelOnData& opened, const ReconstructArguments& arguments) {
  const torch::NoGradGuard no_grad;
  const int64_t total = pictures_wanted(opened, arguments.limit);
  const auto require_fit = [&](const Image& image) {
    fit_to_stride(image, kFits.at(arguments.fit), static_cast<int>(opened.session.stride()));
  };
  ReconstructionFolder folder(arguments.out, *opened.source, folder_settings(opened, arguments), 1,
                              total, require_fit);
  if (folder.complete()) return folder.finish();
  Progress progress("reconstruct", total, "images", 30, folder.pictures());
  for (int64_t i = folder.done(); i < opened.source->size() && folder.pictures() < total; ++i) {
    const auto pair = try_fitted(opened, i, kFits.at(arguments.fit));
    if (pair) folder.add(i, encode_png(arguments.pairs ? beside(*pair) : pair->output));
    folder.advance(i + 1, pair ? std::vector{i} : std::vector<int64_t>{});
    progress.update(folder.pictures());
  }
  folder.finish();
  progress.update(total);  // counts broken images too
  progress.finish();
}

int64_t write_fitted_grid(ModelOnData& opened, const ReconstructArguments& arguments) {
  const torch::NoGradGuard no_grad;
  const int64_t total = pictures_wanted(opened, arguments.limit > 0 ? arguments.limit : 8);
  std::vector<std::vector<Image>> rows(2);
  Progress progress("reconstruct", total, "images");
  for (int64_t i = 0; i < opened.source->size() && std::ssize(rows[0]) < total; ++i) {
    auto pair = try_fitted(opened, i, kFits.at(arguments.fit));
    if (!pair) continue;
    rows[0].push_back(std::move(pair->input));
    rows[1].push_back(std::move(pair->output));
    progress.update(std::ssize(rows[0]));
  }
  if (rows[0].empty()) throw UserError("reconstruct: no usable image in the source");
  progress.finish();
  write_image(arguments.out, make_grid(rows));
  return std::ssize(rows[0]);
}

/// The name of a grid and, where it leaves images out, how many it shows.
void print_grid(const ReconstructArguments& arguments, int64_t shown, int64_t all) {
  fmt::print("{}{}{}\n", arguments.out,
             shown < all ? fmt::format(": {} of {} shown", shown, count_of(all, "image")) : "",
             shown < all && arguments.limit == 0 ? "; --limit N shows more" : "");
}

void run_reconstruct(const ReconstructArguments& arguments) {
  const bool grid = names_image(arguments.out);
  if (grid) {
    check_output_files({{"--out", arguments.out}}, arguments.force,
                       named_sources(arguments.model.data));
  } else {
    check_output_folder(arguments.out);
    require_fillable(arguments.out);
  }
  if (grid && arguments.pairs) {
    throw UserError("--pairs: {} is one grid, which shows images and reconstructions anyway",
                    arguments.out);
  }
  auto all = arguments.model;
  all.limit = 0;
  ModelOnData opened(all);
  const bool square = arguments.fit.empty();
  if (grid) {
    const int64_t shown = (square ? write_grid : write_fitted_grid)(opened, arguments);
    return print_grid(arguments, shown, opened.source->size());
  }
  (square ? write_folder : write_fitted_folder)(opened, arguments);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_reconstruct(CLI::App& app) {
  const auto arguments = std::make_shared<ReconstructArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option(
         "--out", arguments->out,
         "FILE.png or FILE.jpg for one grid, else a folder of PNGs; in the grid images stand "
         "above their reconstructions, the folder is new, empty, or left incomplete by this "
         "command")
      ->required()
      ->type_name("PATH");
  declare_force(app, arguments->force);
  app.add_option("--fit", arguments->fit,
                 "keep each image's size (default: the square of training); resize or crop it to a "
                 "multiple of the model's stride, or pad it and cut the padding off")
      ->check(CLI::IsMember({"resize", "crop", "pad"}));
  app.add_flag("--pairs", arguments->pairs,
               "in a folder, show each image beside its reconstruction; the image is on the left");
  app.get_option("--limit")->description(
      "only the first N images (default: 8 in a grid, else all)");
  app.callback([arguments] {
    arguments->limit = arguments->model.limit;
    run_reconstruct(*arguments);
  });
}

}  // namespace nsvq
