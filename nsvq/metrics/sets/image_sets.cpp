#include "nsvq/metrics/sets/image_sets.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/metrics/sets/feature_extractor.h"

namespace nsvq {

bool is_of_sets(const std::string& metric) {
  const auto input = metric_kind(metric).input;
  return input == MetricInput::sets || input == MetricInput::made;
}

namespace {

/// "two images", "10 images".
std::string least_in_words(const std::string& metric) {
  const auto least = metric_kind(metric).least_images;
  return least == 2 ? "two images" : count_of(least, "image");
}

}  // namespace

void require_images(const std::vector<std::string>& metrics, int64_t images,
                    const std::string& where) {
  for (const auto& name : metrics) {
    if (!is_of_sets(name) || images >= metric_kind(name).least_images) continue;
    throw UserError("{}: {} needs at least {}", where, name, least_in_words(name));
  }
}

void require_all(const MetricChoice& choice, const std::map<std::string, double>& values) {
  for (const auto& name : choice.names) {
    if (!values.contains(name)) throw UserError("{} needs at least {}", name, least_in_words(name));
  }
}

namespace {

/// How many images a metric of sets is against; 0 where it is unknown.
double reference_images(const MetricChoice& choice, const std::map<std::string, double>& values,
                        const std::string& metric) {
  const auto gaussian = choice.reference ? choice.reference->of(metric) : nullptr;
  if (gaussian) return static_cast<double>(gaussian->count);
  if (choice.reference && choice.reference->images) {
    return static_cast<double>(choice.reference->images->size());
  }
  const auto found = values.find("reference_images");
  if (found != values.end() && !choice.reference) return found->second;
  return values.at("images");  // the images of the reconstructions
}

}  // namespace

void warn_of_few_images(const MetricChoice& choice, const std::map<std::string, double>& values) {
  for (const auto& name : choice.names) {
    double images = values.at("images");
    const auto reference = reference_images(choice, values, name);
    if (reference > 0) images = std::min(images, reference);
    warn_of_few_images(name, images);
  }
}

void warn_of_few_images(const std::string& metric, double images) {
  for (const auto& kind : feature_extractor_kinds()) {
    if (kind.name != metric || images > static_cast<double>(kind.channels)) continue;
    log("{}: {} images are too few for {} features; the value says more of their number than of "
        "the images, so compare it with values of as many images alone",
        kind.name, images, kind.channels);
  }
}

namespace {

std::string reference_in_words(const MetricChoice& choice, const std::string& metric, double images,
                               const std::string& named) {
  const auto gaussian = choice.reference ? choice.reference->of(metric) : nullptr;
  if (!gaussian) {
    const bool in_file = choice.reference && choice.reference->images;
    return fmt::format("against {} of {}", count_of(std::llround(images), "image"),
                       in_file ? choice.reference->file : named);
  }
  const auto arrays = gaussian_arrays(metric);
  return fmt::format("against '{}' and '{}' of {}, {}", arrays.mean, arrays.covariance,
                     choice.reference->file,
                     images > 0 ? "of " + count_of(std::llround(images), "image")
                                : "whose number of images is unknown");
}

}  // namespace

std::map<std::string, std::string> describe_sets(const MetricChoice& choice,
                                                 const std::map<std::string, double>& values,
                                                 const std::string& reference,
                                                 const std::string& classes) {
  std::map<std::string, std::string> lines;
  for (const auto& name : choice.names) {
    if (!is_of_sets(name)) continue;
    auto& line = lines[name];
    line = count_of(std::llround(values.at("images")), "image");
    if (!classes.empty()) line += " (" + classes + ")";
    if (metric_kind(name).input == MetricInput::made) continue;
    const auto images = reference_images(choice, values, name);
    line += " " + reference_in_words(choice, name, images, reference);
  }
  return lines;
}

std::string describe_classes(const Source& source, int64_t images) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < std::min(images, source.size()); ++i) ++counts[source.label(i)];
  if (counts.empty() || counts.begin()->first < 0) return "classes unknown";
  const auto [least, most] = std::ranges::minmax(std::views::values(counts));
  const auto classes = fmt::format("{} class{}", counts.size(), counts.size() == 1 ? "" : "es");
  if (least == most) return fmt::format("{} of {} each", classes, count_of(least, "image"));
  return fmt::format("{} of {} to {} images", classes, least, most);
}

}  // namespace nsvq
