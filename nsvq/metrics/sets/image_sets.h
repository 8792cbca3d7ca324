#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nsvq/metrics/metric_set.h"

namespace nsvq {

/// Whether it is a figure of sets of images, which need no partners.
bool is_of_sets(const std::string& metric);

/// Throws UserError, beginning with `where`, for a metric of sets that needs more images.
void require_images(const std::vector<std::string>& metrics, int64_t images,
                    const std::string& where);
/// Throws UserError naming the first metric without a value: too few images.
void require_all(const MetricChoice& choice, const std::map<std::string, double>& values);

/// A line in the log for each Fréchet distance of no more images than its network has features:
/// such a covariance has no full rank.
void warn_of_few_images(const MetricChoice& choice, const std::map<std::string, double>& values);
void warn_of_few_images(const std::string& metric, double images);

/// For each metric of sets, which images it is of: "50000 images against 'mu' and 'sigma' of FILE,
/// whose number of images is unknown". `values` hold the numbers of images, `reference` is what
/// the user named, and `classes` what is known of those of the images.
std::map<std::string, std::string> describe_sets(const MetricChoice& choice,
                                                 const std::map<std::string, double>& values,
                                                 const std::string& reference,
                                                 const std::string& classes = "");
/// The classes of the first `images` of a source: "1000 classes of 50 images each".
std::string describe_classes(const Source& source, int64_t images);

}  // namespace nsvq
