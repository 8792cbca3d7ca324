#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/cli/picture_output.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/fit.h"
#include "nsvq/report/grid.h"
#include "nsvq/tokenizer/evaluate.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ReconstructArguments {
  ModelArguments model;
  std::string out, fit;
  int64_t limit = 0;
};

const std::map<std::string, Fit> kFits = {
    {"resize", Fit::resize}, {"crop", Fit::crop}, {"pad", Fit::pad}};

bool names_image(const fs::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

/// One picture: images above their reconstructions.
void write_grid(ModelOnData& opened, const fs::path& out, int64_t limit) {
  opened.options.batch_size = limit > 0 ? limit : 8;
  Loader loader(opened.source, opened.options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("reconstruct: no usable image in the source");
  write_image(out, sample_grid(opened.session.tokenizer(), batch->images.to(opened.session.device())));
}

/// A PNG for each image, under the image's own name.
void write_folder(ModelOnData& opened, const fs::path& out, int64_t limit) {
  const torch::NoGradGuard no_grad;
  require_empty_folder(out);
  PictureNames names(".png");
  const int64_t total = limit > 0 ? std::min(limit, opened.source->size()) : opened.source->size();
  Loader loader(opened.source, opened.options);
  Progress progress("reconstruct", total, "images");
  loader.start(0);
  int64_t done = 0;
  for (auto batch = loader.next(); batch && done < total; batch = loader.next()) {
    const auto images = opened.session.reconstruct(batch->images);
    for (int64_t i = 0; i < images.size(0) && done < total; ++i, ++done) {
      write_image(out / names.name_for(opened.source->key(batch->indices[i])), to_image(images[i]));
    }
    progress.update(done);
  }
  progress.finish();
  if (done == 0) throw UserError("reconstruct: no usable image in the source");
}

/// A picture as the model takes it, and what becomes of it.
struct FittedImage {
  Image shown, reconstruction;
};

/// A picture of any size by itself. What padding added is cut off again.
FittedImage reconstruct_fitted(ModelOnData& opened, const Image& image, Fit fit) {
  const auto stride = static_cast<int>(opened.session.stride());
  auto fitted = fit_to_stride(image, fit, stride);
  auto input = at::empty({1, 3, fitted.height, fitted.width});
  transform(fitted, {.height = fitted.height, .width = fitted.width}, 0,
            {input.data_ptr<float>(), static_cast<size_t>(input.numel())});
  auto output = to_image(opened.session.reconstruct(input)[0]);
  if (fit != Fit::pad) return {std::move(fitted), std::move(output)};
  return {image, cut(output, image.width, image.height)};
}

/// Calls `use` with the key and the pair of each image; broken ones are left out with a line.
void for_each_fitted(ModelOnData& opened, Fit fit, int64_t limit,
                     const std::function<void(const std::string&, FittedImage)>& use) {
  const torch::NoGradGuard no_grad;
  const int64_t total = limit > 0 ? std::min(limit, opened.source->size()) : opened.source->size();
  Progress progress("reconstruct", total, "images");
  int64_t done = 0;
  for (int64_t i = 0; i < opened.source->size() && done < total; ++i) {
    const auto key = opened.source->key(i);
    try {
      use(key, reconstruct_fitted(opened, opened.source->load(i), fit));
      progress.update(++done);
    } catch (const UserError& error) {
      if (opened.options.on_error == OnError::stop) throw;
      log("left out {}: {}", quote(key), error.what());
    }
  }
  progress.finish();
  if (done == 0) throw UserError("reconstruct: no usable image in the source");
}

void write_fitted(ModelOnData& opened, const fs::path& out, Fit fit, int64_t limit) {
  if (!names_image(out)) {
    require_empty_folder(out);
    PictureNames names(".png");
    return for_each_fitted(opened, fit, limit,
                           [&](const std::string& key, const FittedImage& pair) {
                             write_image(out / names.name_for(key), pair.reconstruction);
                           });
  }
  std::vector<std::vector<Image>> rows(2);
  for_each_fitted(opened, fit, limit > 0 ? limit : 8,
                  [&rows](const std::string&, FittedImage pair) {
                    rows[0].push_back(std::move(pair.shown));
                    rows[1].push_back(std::move(pair.reconstruction));
                  });
  write_image(out, make_grid(rows));
}

void run_reconstruct(const ReconstructArguments& arguments) {
  ModelOnData opened(arguments.model);
  const fs::path out = arguments.out;
  if (arguments.fit.empty()) {
    (names_image(out) ? write_grid : write_folder)(opened, out, arguments.limit);
  } else {
    write_fitted(opened, out, kFits.at(arguments.fit), arguments.limit);
  }
  fmt::print("{}\n", out.string());
}

}  // namespace

void declare_reconstruct(CLI::App& app) {
  const auto arguments = std::make_shared<ReconstructArguments>();
  declare_model_arguments(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "FILE.png or FILE.jpg: one grid, images above their reconstructions; "
                 "anything else: a folder with a PNG for each image")
      ->required();
  app.add_option("--fit", arguments->fit,
                 "keep each image's own size but for what the model's stride asks for: resize it, "
                 "crop it, or pad it and cut the padding off again (default: resize and crop to "
                 "the square of training)")
      ->check(CLI::IsMember({"resize", "crop", "pad"}));
  app.add_option("--limit", arguments->limit,
                 "at most this many images (default: 8 in a grid, else all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000}));
  app.callback([arguments] { run_reconstruct(*arguments); });
}

}  // namespace nsvq
