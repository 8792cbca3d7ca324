#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/report/grid.h"
#include "nsvq/train/evaluate.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ReconstructArguments {
  ModelArguments model;
  std::string out;
  int64_t limit = 0;
};

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
  write_image(out, sample_grid(opened.model.tokenizer, batch->images.to(opened.device)));
}

/// The file for an image called `key`: below `out`, whatever the key says. Where x.jpg has taken
/// x.png already, that of another x.png is x.png.png.
fs::path file_for(const fs::path& out, const std::string& key) {
  fs::path inside;
  for (const auto& part : fs::path(key).relative_path()) {
    if (part != ".." && part != ".") inside /= part;
  }
  const auto file = (out / inside).replace_extension(".png");
  return fs::exists(file) ? fs::path((out / inside).string() + ".png") : file;
}

void require_empty(const fs::path& out) {
  std::error_code error;
  if (!fs::exists(out, error) || (fs::is_directory(out, error) && fs::is_empty(out, error))) return;
  throw UserError("{}: exists and is not an empty folder; choose another for --out", out.string());
}

/// A PNG for each image, under the image's own name.
void write_folder(ModelOnData& opened, const fs::path& out, int64_t limit) {
  const torch::NoGradGuard no_grad;
  require_empty(out);
  const int64_t total = limit > 0 ? std::min(limit, opened.source->size()) : opened.source->size();
  Loader loader(opened.source, opened.options);
  Progress progress("reconstruct", total, "images");
  loader.start(0);
  int64_t done = 0;
  for (auto batch = loader.next(); batch && done < total; batch = loader.next()) {
    auto& tokenizer = opened.model.tokenizer;
    const auto images = tokenizer->decode(tokenizer->encode(batch->images.to(opened.device)));
    for (int64_t i = 0; i < images.size(0) && done < total; ++i, ++done) {
      write_image(file_for(out, opened.source->key(batch->indices[i])), to_image(images[i]));
    }
    progress.update(done);
  }
  progress.finish();
  if (done == 0) throw UserError("reconstruct: no usable image in the source");
}

void run_reconstruct(const ReconstructArguments& arguments) {
  auto opened = open(arguments.model, *make_group());
  const fs::path out = arguments.out;
  (names_image(out) ? write_grid : write_folder)(opened, out, arguments.limit);
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
  app.add_option("--limit", arguments->limit,
                 "at most this many images (default: 8 in a grid, else all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000}));
  app.callback([arguments] { run_reconstruct(*arguments); });
}

}  // namespace nsvq
