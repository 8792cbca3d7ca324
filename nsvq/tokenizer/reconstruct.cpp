#include "nsvq/tokenizer/reconstruct.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/tokenizer/picture_output.h"

namespace nsvq {

ReconstructedImage reconstruct_image(InferenceSession& session, const Image& image, Fit fit) {
  auto fitted = fit_to_stride(image, fit, static_cast<int>(session.stride()));
  auto input = at::empty({1, 3, fitted.height, fitted.width});
  transform(fitted, {.height = fitted.height, .width = fitted.width}, 0,
            {input.data_ptr<float>(), static_cast<size_t>(input.numel())});
  auto output = to_image(as_rounded(session.reconstruct(input), session.config().model)[0]);
  if (fit != Fit::pad) return {std::move(fitted), std::move(output)};
  return {image, crop_corner(output, image.width, image.height)};
}

namespace {

std::vector<std::string> names_for(const Source& source, const std::filesystem::path& folder) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < source.size(); ++i) keys.push_back(source.key(i));
  auto names = picture_names(keys, ".png");
  require_folder_names(names, folder, "name FILE.png for --out, one picture of all");
  return names;
}

}  // namespace

ReconstructionFolder::ReconstructionFolder(const std::filesystem::path& path, const Source& source,
                                           const ResumableFolder::Settings& settings, int64_t batch,
                                           int64_t pictures,
                                           const std::function<void(const Image&)>& use)
    : names_(names_for(source, path)), folder_(path, settings) {
  folder_.require_done(
      {.positions = source.size(), .step = batch, .files = pictures, .leaves_out = true},
      [this](int64_t position) { return names_.at(position); });
  if (const auto image = first_readable(source, folder_.left_out(), use)) {
    go_back(*image / batch * batch, source.key(*image), path);
  }
  pictures_ = std::min(done() - std::ssize(folder_.left_out()), pictures);
  if (done() > 0 && !folder_.complete())
    log("going on after the first {}", count_of(done(), "image"));
}

/// Pictures of the positions that are done again are removed: with a limit to their number, some
/// of them are not made this time.
void ReconstructionFolder::go_back(int64_t done, const std::string& image,
                                   const std::filesystem::path& path) {
  const int64_t before = folder_.done();
  folder_.go_back(done, image);
  std::error_code ignored;
  for (int64_t i = done; i < before; ++i) std::filesystem::remove(path / names_.at(i), ignored);
}

void ReconstructionFolder::add(int64_t index, std::span<const std::byte> png) {
  folder_.write(names_.at(index), png);
  ++pictures_;
}

void ReconstructionFolder::advance(int64_t end, const std::vector<int64_t>& indices) {
  std::vector<int64_t> left_out;
  auto next = indices.begin();
  for (int64_t i = done(); i < end; ++i) {
    if (next != indices.end() && *next == i) {
      ++next;
    } else {
      left_out.push_back(i);
    }
  }
  folder_.advance(end, left_out);
}

void ReconstructionFolder::finish() {
  if (pictures_ == 0) throw UserError("reconstruct: no usable image in the source");
  folder_.finish();
}

}  // namespace nsvq
