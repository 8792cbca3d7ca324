#include "nsvq/tokenizer/reconstruct.h"

#include <utility>

#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"

namespace nsvq {

ReconstructedImage reconstruct_image(InferenceSession& session, const Image& image, Fit fit) {
  auto fitted = fit_to_stride(image, fit, static_cast<int>(session.stride()));
  auto input = at::empty({1, 3, fitted.height, fitted.width});
  transform(fitted, {.height = fitted.height, .width = fitted.width}, 0,
            {input.data_ptr<float>(), static_cast<size_t>(input.numel())});
  auto output = to_image(session.reconstruct(input)[0]);
  if (fit != Fit::pad) return {std::move(fitted), std::move(output)};
  return {image, crop_corner(output, image.width, image.height)};
}

}  // namespace nsvq
