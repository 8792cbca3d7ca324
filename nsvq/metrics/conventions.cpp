#include "nsvq/metrics/conventions.h"

#include <cmath>

#include "nsvq/core/lookup.h"

namespace nsvq {

const std::vector<Conventions>& known_conventions() {
  static const std::vector<Conventions> all = {
      {},
      // SimVQ's evaluation.py: skimage is given whole batches of 64 for PSNR, and the batches'
      // values are averaged, a short last one counting as much as any.
      {.name = "simvq",
       .pixels = PixelRule::truncated,
       .network = PixelRule::unrounded,
       .group = 64},
      // LlamaGen's reconstruction_vq_ddp.py: a data range of 2 for values in [0, 1].
      {.name = "llamagen", .ssim_range = 2},
      // ADM's evaluator.py, by whose reference files generators are compared.
      {.name = "adm", .inception = InceptionResize::tensorflow},
  };
  return all;
}

const Conventions& find_conventions(const std::string& name) {
  return find_named(known_conventions(), "conventions", name);
}

std::string name_of(PixelRule rule) {
  if (rule == PixelRule::rounded) return "rounded";
  return rule == PixelRule::truncated ? "truncated" : "float";
}

PixelRule find_pixel_rule(const std::string& name) {
  for (const auto rule : {PixelRule::rounded, PixelRule::truncated, PixelRule::unrounded}) {
    if (name_of(rule) == name) return rule;
  }
  throw UserError("pixels are rounded, truncated or float, not {}", quote(name));
}

std::string pixels_in_words(PixelRule rule) {
  return rule == PixelRule::unrounded ? name_of(rule) : "8-bit " + name_of(rule);
}

std::string groups_in_words(const Conventions& conventions) {
  if (conventions.group == 1) return "mean over images";
  return fmt::format("mean over batches of {} images", conventions.group);
}

std::string resize_in_words(InceptionResize resize) {
  return resize == InceptionResize::tensorflow ? "as in TensorFlow's graph" : "as in pytorch-fid";
}

std::string inception_in_words(const Conventions& conventions) {
  return fmt::format("resized (bilinear, 299x299) {}; {}", resize_in_words(conventions.inception),
                     pixels_in_words(conventions.network));
}

double decibels(double mean_squared_error) {
  constexpr double highest = 100;
  const double dB = 10 * std::log10(kPixelRange * kPixelRange / mean_squared_error);
  return dB > highest ? highest : dB;
}

torch::Tensor to_pixels(const torch::Tensor& images, PixelRule rule) {
  const torch::NoGradGuard no_grad;
  const auto x = images.to(torch::kFloat).clamp(-1, 1);
  if (rule == PixelRule::unrounded) return (x + 1) * (kPixelRange / 2);
  // The order of SimVQ's script, by which a few of its 256 levels x / 127.5 - 1 fall by one.
  if (rule == PixelRule::truncated) return ((x + 1) / 2 * kPixelRange).floor();
  return ((x + 1) * (kPixelRange / 2) + 0.5).floor();
}

torch::Tensor to_network_input(const torch::Tensor& images, PixelRule rule) {
  const torch::NoGradGuard no_grad;
  if (rule == PixelRule::unrounded) return images.to(torch::kFloat).clamp(-1, 1);
  return to_pixels(images, rule) / (kPixelRange / 2) - 1;
}

}  // namespace nsvq
