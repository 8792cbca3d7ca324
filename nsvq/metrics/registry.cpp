#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/psnr.h"
#include "nsvq/metrics/ssim.h"
#include "nsvq/metrics/usage.h"

namespace nsvq {

const std::vector<MetricKind>& metric_kinds() {
  static const std::vector<MetricKind> kinds = {
      {"psnr", "peak signal-to-noise ratio in dB, the mean over images and pooled",
       [](int64_t) { return std::make_unique<Psnr>(); }},
      {"ssim", "structural similarity, 7x7 uniform window",
       [](int64_t) { return std::make_unique<Ssim>(); }},
      {"usage", "fraction of codes used, and perplexity of their use",
       [](int64_t codes) { return std::make_unique<Usage>(codes); }},
  };
  return kinds;
}

}  // namespace nsvq
