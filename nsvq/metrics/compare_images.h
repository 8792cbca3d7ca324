#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

/// A source as the user named it.
struct NamedSource {
  std::string spec;
  std::shared_ptr<const Source> source;
};

/// Indices of images to be compared; where sets are compared, one of the two is missing.
struct Pair {
  std::optional<int64_t> reference, other;
};

/// Images of one name, endings aside, in the order of the reference, of which only the first
/// `limit` count if it is above 0; two single images are a pair whatever they are called. Throws
/// UserError for names without a partner (but not for those of `other` that the limit leaves out)
/// and for names that occur twice.
std::vector<Pair> pair_by_name(const NamedSource& reference, const NamedSource& other,
                               int64_t limit = 0);
/// Every image of both, or the first `limit` of each, alone; there may be no reference.
std::vector<Pair> unpaired(const Source* reference, const Source& other, int64_t limit = 0);

struct ImagePair {
  std::optional<Image> reference, other;
};

/// Decodes both at their own size. Throws UserError where the sizes differ.
ImagePair load_pair(const NamedSource& reference, const NamedSource& other, const Pair& pair);

/// Images of one size, `reference` as images and `other` as reconstructions.
EvalBatch to_batch(const std::vector<ImagePair>& pairs);

/// Calls `use` with batches of `load(i)` for 0 <= i < count, in order. A few are loaded ahead, each
/// in a thread; neighbours of one size share a batch, small batches for large images. `title` is
/// shown by the progress bar.
void for_each_batch(const std::string& title, int64_t count,
                    const std::function<ImagePair(int64_t)>& load,
                    const std::function<void(const EvalBatch&)>& use);

/// The chosen figures of images against those of a reference, at their own sizes, the number of
/// `images`, and of `reference_images` where sets are compared. They are paired by name, unless all
/// figures are of sets. With a file for the reference (choice.reference) its source is null. A
/// `limit` above 0 takes the first so many pairs, or of each set, but all that such a file holds.
/// Networks run on `device`. Throws UserError.
std::map<std::string, double> compare_images(const NamedSource& reference, const NamedSource& other,
                                             const MetricChoice& choice, c10::Device device,
                                             int64_t limit = 0);

}  // namespace nsvq
