#pragma once

#include "nsvq/data/images/transform.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

/// A picture as the model takes it, and its reconstruction, both of one size.
struct ReconstructedImage {
  Image input, output;
};

/// Encodes and decodes a picture of any size, fitted to the model's stride. What padding added is
/// cropped off both.
ReconstructedImage reconstruct_image(InferenceSession& session, const Image& image, Fit fit);

}  // namespace nsvq
