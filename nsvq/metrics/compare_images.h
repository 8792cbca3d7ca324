#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string>

#include "nsvq/metrics/image_pairs.h"
#include "nsvq/metrics/metric_choice.h"

namespace nsvq {

/// The chosen figures of images against those of a reference, at their own sizes, the number of
/// `images`, and of `reference_images` where sets are compared. They are paired by name, unless all
/// figures are Fréchet distances. With statistics for the reference (choice.reference) its source
/// is null. Networks run on `device`. Throws UserError.
std::map<std::string, double> compare_images(const NamedSource& reference, const NamedSource& other,
                                             const MetricChoice& choice, c10::Device device);

}  // namespace nsvq
