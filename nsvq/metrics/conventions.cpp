#include "nsvq/metrics/conventions.h"

#include "nsvq/core/lookup.h"

namespace nsvq {

const std::vector<Conventions>& known_conventions() {
  static const std::vector<Conventions> all = {
      {},
      // SimVQ's evaluation.py: skimage is given whole batches of 64 for PSNR, and the mean is that
      // of the batches, a short last one counting as much as any.
      {.name = "simvq",
       .pixels = PixelRule::truncated,
       .network = PixelRule::unrounded,
       .group = 64},
      // LlamaGen's reconstruction_vq_ddp.py: a data range of 2 for values in [0, 1].
      {.name = "llamagen", .ssim_range = 2},
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

std::string describe(PixelRule rule) {
  return rule == PixelRule::unrounded ? name_of(rule) : "8-bit " + name_of(rule);
}

std::string describe_groups(const Conventions& conventions) {
  if (conventions.group == 1) return "mean over images";
  return fmt::format("mean over batches of {} images", conventions.group);
}

}  // namespace nsvq
