#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/generate/generate.h"
#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

namespace {

struct InpaintArguments : GenerateArguments {
  std::string image, mask, side, out;
  int64_t count = 1;
  bool force = false;
};

struct NamedSide {
  std::string name;
  ImageSide side;
};
const std::vector<NamedSide> kSides = {{"left", ImageSide::left},
                                       {"right", ImageSide::right},
                                       {"top", ImageSide::top},
                                       {"bottom", ImageSide::bottom}};

/// The image as training prepares images: its short side resized, the square in the middle.
torch::Tensor prepared(GeneratorSession& session, const Image& image) {
  const int64_t size = session.image_height();
  if (size != session.image_width()) {
    throw UserError("{}: grids of {}x{}, but images are filled in squares",
                    session.generator().file.string(), session.grid().height, session.grid().width);
  }
  TransformOptions options;
  options.size = static_cast<int>(size);
  auto pixels = at::empty({3, size, size});
  transform(image, options, /*seed=*/0,
            {pixels.data_ptr<float>(), static_cast<size_t>(pixels.numel())});
  return pixels;
}

/// The tokens to make anew, [h, w] of booleans: those with a pixel of the mask that is nearer to
/// white than to black.
torch::Tensor tokens_of_mask(GeneratorSession& session, const Image& image,
                             const std::string& file) {
  const auto picture = read_image(file);
  if (picture.width != image.width || picture.height != image.height) {
    throw UserError("--mask {}: {}x{} pixels, but the image has {}x{}; make it of the same size",
                    file, picture.width, picture.height, image.width, image.height);
  }
  const auto pixels = prepared(session, picture).mean(0).gt(0).to(at::kFloat);
  const int64_t stride = session.codec().stride();
  const auto mask = at::max_pool2d(pixels.view({1, 1, pixels.size(0), pixels.size(1)}), stride)
                        .squeeze(0)
                        .squeeze(0)
                        .gt(0);
  if (mask.any().item<bool>()) return mask;
  throw UserError("--mask {}: no pixel is white, so there is nothing to make anew", file);
}

void run_inpaint(const InpaintArguments& arguments) {
  if (arguments.mask.empty() == arguments.side.empty()) {
    throw UserError("name what is to be made: --mask FILE or --outpaint SIDE");
  }
  std::vector<NamedFile> read = {{"--image", arguments.image}};
  if (!arguments.mask.empty()) read.push_back({"--mask", arguments.mask});
  check_output_files({{"--out", arguments.out, ".png"}}, arguments.force, read);
  const auto session = open_generator(arguments);
  const auto picture = read_image(arguments.image);
  const auto image = prepared(*session, picture);
  const auto request = request_tokens(*session, arguments, 0, arguments.count);
  const auto images =
      arguments.side.empty()
          ? session->fill(image, tokens_of_mask(*session, picture, arguments.mask), request)
          : session->continued(image, find_named(kSides, "side", arguments.side, "--outpaint").side,
                               request);
  write_image(arguments.out, make_square_grid(images));
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_generate_inpaint(CLI::App& app) {
  const auto arguments = std::make_shared<InpaintArguments>();
  declare_generate_arguments(app, *arguments);
  app.add_option("--image", arguments->image, "the image, whose square in the middle is taken")
      ->required()
      ->type_name("FILE");
  app.add_option("--mask", arguments->mask,
                 "picture that is white where the image is to be made anew")
      ->type_name("FILE");
  app.add_option("--outpaint", arguments->side,
                 "make half as much again on a side: left, right, top or bottom")
      ->check(CLI::IsMember(names_of(kSides)))
      ->type_name("SIDE");
  declare_count(app, arguments->count, 1);
  app.get_option("--count")->description("number of different images, in one grid");
  app.add_option("--out", arguments->out, "FILE.png")->required()->type_name("FILE");
  declare_force(app, arguments->force);
  app.callback([arguments] { run_inpaint(*arguments); });
}

}  // namespace nsvq
