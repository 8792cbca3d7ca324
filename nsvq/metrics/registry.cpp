#include <map>

#include "nsvq/core/lookup.h"
#include "nsvq/metrics/frechet_metric.h"
#include "nsvq/metrics/lpips_metric.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/psnr.h"
#include "nsvq/metrics/ssim.h"
#include "nsvq/metrics/usage.h"

namespace nsvq {

namespace {

std::string groups(const Conventions& conventions) {
  if (conventions.group == 1) return "mean over images";
  return fmt::format("mean over batches of {} images", conventions.group);
}

MetricKind psnr_kind() {
  return {"psnr",
          "peak signal-to-noise ratio in dB, mean over images",
          MetricInput::pairs,
          /*needs_weights=*/false,
          [](const Conventions& c) { return groups(c) + "; " + describe(c.pixels); },
          [](const MetricOptions& options) {
            return std::make_unique<Psnr>(options.conventions.pixels, options.conventions.group);
          }};
}

MetricKind pooled_psnr_kind() {
  return {
      "psnr_pooled",
      "peak signal-to-noise ratio in dB of the error over all images",
      MetricInput::pairs,
      /*needs_weights=*/false,
      [](const Conventions& c) { return "of the error over all images; " + describe(c.pixels); },
      [](const MetricOptions& options) {
        return std::make_unique<Psnr>(options.conventions.pixels, GroupedMean::kAll);
      }};
}

std::string ssim_choices(const Conventions& conventions) {
  return fmt::format("{}; {}; 7x7 uniform window, data range {} for values in [0, 1]",
                     groups(conventions), describe(conventions.pixels), conventions.ssim_range);
}

MetricKind ssim_kind() {
  return {"ssim",
          "structural similarity, 7x7 uniform window",
          MetricInput::pairs,
          /*needs_weights=*/false,
          ssim_choices,
          [](const MetricOptions& options) { return std::make_unique<Ssim>(options.conventions); }};
}

MetricKind lpips_kind(const FeatureNetKind& net) {
  return {
      "lpips-" + net.name,
      "LPIPS 0.1 on " + net.weights + ", mean over images",
      MetricInput::pairs,
      /*needs_weights=*/true,
      [](const Conventions& c) { return "LPIPS 0.1, mean over images; " + describe(c.network); },
      [name = net.name](const MetricOptions& options) {
        return std::make_unique<LpipsMetric>(make_lpips(name, options.device), options.device,
                                             options.conventions.network);
      }};
}

MetricKind frechet_kind(const FeatureExtractorKind& extractor) {
  return {extractor.name,
          extractor.summary,
          MetricInput::sets,
          /*needs_weights=*/true,
          [summary = extractor.summary](const Conventions& c) {
            return summary + "; " + describe(c.network);
          },
          [name = extractor.name](const MetricOptions& options) {
            return std::make_unique<FrechetMetric>(make_feature_extractor(name, options.device),
                                                   options.device, options.conventions.network,
                                                   options.reference);
          }};
}

MetricKind usage_kind(const std::string& name, const std::string& summary, Usage::Figure figure) {
  return {name,
          summary,
          MetricInput::tokens,
          /*needs_weights=*/false,
          [summary](const Conventions&) { return summary; },
          [figure](const MetricOptions& options) {
            return std::make_unique<Usage>(options.codes, figure);
          }};
}

}  // namespace

const std::vector<MetricKind>& metric_kinds() {
  static const std::vector<MetricKind> all = [] {
    std::vector<MetricKind> kinds = {psnr_kind(), pooled_psnr_kind(), ssim_kind()};
    for (const auto& net : feature_net_kinds()) kinds.push_back(lpips_kind(net));
    for (const auto& extractor : feature_extractor_kinds()) {
      kinds.push_back(frechet_kind(extractor));
    }
    kinds.push_back(usage_kind("utilisation", "codes used at least once", utilisation));
    kinds.push_back(usage_kind("perplexity", "2 to the power of the entropy", perplexity));
    kinds.push_back(
        usage_kind("entropy", "of a token, by how often each code was used", token_entropy));
    return kinds;
  }();
  return all;
}

const MetricKind& metric_kind(const std::string& name) {
  static const std::map<std::string, std::string> others = {{"lpips", "lpips-vgg"},
                                                            {"rfid", "fid"}};
  const auto other = others.find(name);
  const auto& wanted = other == others.end() ? name : other->second;
  return find_named(metric_kinds(), "metric", wanted);
}

}  // namespace nsvq
