#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

/// How a value x in [-1, 1] becomes what a metric compares: one of 256 levels, or any value.
enum class PixelRule {
  rounded,    ///< (x + 1) * 127.5 to the nearest whole number, half goes up: as in a picture file
  truncated,  ///< (x + 1) / 2 * 255 without its fraction: as a cast to uint8 makes it
  unrounded,  ///< (x + 1) * 127.5
};

/// How FID's network gets images of any size: bilinear to 299 x 299, without antialiasing.
enum class InceptionResize {
  pytorch_fid,  ///< by the pixels' centres, as in pytorch-fid
  tensorflow,   ///< by their corners, as in TensorFlow's graph, which ADM's evaluator runs
};

/// The choices that make two figures of one name differ. The defaults are nsvq's.
struct Conventions {
  std::string name = "nsvq";
  PixelRule pixels = PixelRule::rounded;   ///< for PSNR and SSIM
  PixelRule network = PixelRule::rounded;  ///< for metrics that use a network
  int64_t group = 1;      ///< images that share one PSNR and one mean SSIM; these are averaged
  double ssim_range = 1;  ///< SSIM's data range, of values in [0, 1]
  InceptionResize inception = InceptionResize::pytorch_fid;
};

/// Ours and those of peers, ours first.
const std::vector<Conventions>& known_conventions();
/// Throws UserError with the names there are.
const Conventions& find_conventions(const std::string& name);

/// "rounded", "truncated" or "float", and back; throws UserError.
std::string name_of(PixelRule rule);
PixelRule find_pixel_rule(const std::string& name);

/// For outputs: "8-bit rounded", "8-bit truncated", "float".
std::string pixels_in_words(PixelRule rule);
/// For outputs: "mean over images", "mean over batches of 64 images".
std::string groups_in_words(const Conventions& conventions);

/// For outputs: "as in pytorch-fid", "as in TensorFlow's graph".
std::string resize_in_words(InceptionResize resize);
/// For outputs of metrics by FID's network: "resized (bilinear, 299x299) as in pytorch-fid; 8-bit
/// rounded".
std::string inception_in_words(const Conventions& conventions);

/// Metrics keep values of 0 to 255, whose sums are exact where they are whole numbers. Papers
/// divide by 255 and use a data range of 1, which is equivalent.
constexpr double kPixelRange = 255;

/// The PSNR in dB of a mean squared error of such values. Equal pixels would be infinite: it is at
/// most 100 dB. NaN stays NaN.
double decibels(double mean_squared_error);

/// Images in [-1, 1] to values of 0 to 255 as fp32, on the same device. NaN stays NaN.
torch::Tensor to_pixels(const torch::Tensor& images, PixelRule rule = PixelRule::rounded);

/// Images in [-1, 1] with values by the rule, in [-1, 1], for networks.
torch::Tensor to_network_input(const torch::Tensor& images, PixelRule rule);

}  // namespace nsvq
