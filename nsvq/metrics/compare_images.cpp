#include "nsvq/metrics/compare_images.h"

#include <algorithm>
#include <deque>
#include <future>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/metrics/sets/image_sets.h"

namespace nsvq {

namespace {

std::string without_ending(const std::string& key) {
  return is_image_name(key) ? key.substr(0, key.rfind('.')) : key;
}

std::unordered_map<std::string, int64_t> indices_by_name(const NamedSource& images) {
  std::unordered_map<std::string, int64_t> indices;
  for (int64_t i = 0; i < images.source->size(); ++i) {
    const auto name = without_ending(images.source->key(i));
    if (indices.emplace(name, i).second) continue;
    throw UserError("{}: two images are named {}, endings aside; pairs need each name once",
                    images.spec, name);
  }
  return indices;
}

/// Throws UserError if a name of `images` is missing among those of `partners`.
void check_partners(const NamedSource& images, const NamedSource& partners,
                    const std::unordered_map<std::string, int64_t>& indices) {
  int64_t missing = 0;
  std::string first;
  for (int64_t i = 0; i < images.source->size(); ++i) {
    const auto name = without_ending(images.source->key(i));
    if (!indices.contains(name) && missing++ == 0) first = name;
  }
  if (missing == 0) return;
  throw UserError("{} of {} of {} {} no partner in {}; the first is {}", missing,
                  count_of(images.source->size(), "image"), images.spec,
                  missing == 1 ? "has" : "have", partners.spec, first);
}

torch::Tensor to_tensor(const Image& image) {
  const auto bytes = at::tensor(at::ArrayRef<uint8_t>(image.pixels), at::kByte);
  const auto values = bytes.view({image.height, image.width, 3}).permute({2, 0, 1});
  return (values.to(at::kDouble) / 127.5 - 1).to(at::kFloat);  // as by the loader
}

/// Calls `use(load(i))` for 0 <= i < count in order, loading a few ahead in threads.
void load_ahead(int64_t count, const std::function<ImagePair(int64_t)>& load,
                const std::function<void(ImagePair)>& use) {
  const int64_t ahead = std::clamp(usable_cores(), 2, 16);
  std::deque<std::future<ImagePair>> loading;
  for (int64_t started = 0; started < count || !loading.empty();) {
    while (started < count && std::ssize(loading) < ahead) {
      loading.push_back(std::async(std::launch::async, load, started++));
    }
    auto loaded = loading.front().get();
    loading.pop_front();
    use(std::move(loaded));
  }
}

/// Gathers neighbours of one size into batches, small ones for large images.
class ImageBatches {
 public:
  explicit ImageBatches(const std::function<void(const EvalBatch&)>& use) : use_(use) {}

  void add(ImagePair pair) {
    const Image& image = pair.reference ? *pair.reference : *pair.other;
    const Shape shape = {pair.reference.has_value(), pair.other.has_value(), image.width,
                         image.height};
    constexpr int64_t most_pixels = 1 << 20, most_images = 32;
    const int64_t room = most_pixels / (int64_t{image.width} * image.height);
    if (shape != shape_ || std::ssize(pairs_) >= std::clamp<int64_t>(room, 1, most_images)) flush();
    shape_ = shape;
    pairs_.push_back(std::move(pair));
  }

  /// Hands on what is left.
  void flush() {
    if (!pairs_.empty()) use_(to_batch(pairs_));
    pairs_.clear();
  }

 private:
  using Shape = std::tuple<bool, bool, int, int>;

  const std::function<void(const EvalBatch&)>& use_;
  Shape shape_;
  std::vector<ImagePair> pairs_;
};

}  // namespace

std::vector<Pair> pair_by_name(const NamedSource& reference, const NamedSource& other,
                               int64_t limit) {
  if (reference.source->size() == 1 && other.source->size() == 1) return {{0, 0}};
  const NamedSource wanted{reference.spec, limited(reference.source, limit)};
  const auto theirs = indices_by_name(other), ours = indices_by_name(wanted);
  check_partners(wanted, other, theirs);
  const bool all = wanted.source->size() == reference.source->size();
  if (all) check_partners(other, wanted, ours);
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < wanted.source->size(); ++i) {
    pairs.push_back({i, theirs.at(without_ending(wanted.source->key(i)))});
  }
  return pairs;
}

std::vector<Pair> unpaired(const Source* reference, const Source& other, int64_t limit) {
  const auto used = [limit](const Source& source) {
    return limit > 0 ? std::min(limit, source.size()) : source.size();
  };
  std::vector<Pair> pairs;
  for (int64_t i = 0; reference && i < used(*reference); ++i) pairs.push_back({i, {}});
  for (int64_t i = 0; i < used(other); ++i) pairs.push_back({{}, i});
  return pairs;
}

ImagePair load_pair(const NamedSource& reference, const NamedSource& other, const Pair& pair) {
  ImagePair images;
  if (pair.reference) images.reference = reference.source->load(*pair.reference);
  if (pair.other) images.other = other.source->load(*pair.other);
  if (!pair.reference || !pair.other) return images;
  const auto &a = *images.reference, &b = *images.other;
  if (a.width == b.width && a.height == b.height) return images;
  throw UserError("{} in {} is {} x {} pixels, but {} in {} is {} x {}; pairs need one size",
                  reference.source->key(*pair.reference), reference.spec, a.width, a.height,
                  other.source->key(*pair.other), other.spec, b.width, b.height);
}

EvalBatch to_batch(const std::vector<ImagePair>& pairs) {
  std::vector<torch::Tensor> images, reconstructions;
  for (const auto& pair : pairs) {
    if (pair.reference) images.push_back(to_tensor(*pair.reference));
    if (pair.other) reconstructions.push_back(to_tensor(*pair.other));
  }
  EvalBatch batch;
  if (!images.empty()) batch.images = at::stack(images);
  if (!reconstructions.empty()) batch.reconstructions = at::stack(reconstructions);
  return batch;
}

void for_each_batch(const std::string& title, int64_t count,
                    const std::function<ImagePair(int64_t)>& load,
                    const std::function<void(const EvalBatch&)>& use) {
  ImageBatches batches(use);
  Progress progress(title, count, "images");
  int64_t done = 0;
  load_ahead(count, load, [&](ImagePair pair) {
    batches.add(std::move(pair));
    progress.update(++done);
  });
  batches.flush();
  progress.finish();
}

namespace {

bool compares_sets(const MetricChoice& choice) {
  return std::ranges::all_of(choice.names, is_of_sets);
}

std::vector<Pair> pairs_of(const NamedSource& reference, const NamedSource& other,
                           const MetricChoice& choice, int64_t limit) {
  const bool sets = compares_sets(choice);
  if (choice.reference && !sets) {
    throw UserError("{}: statistics are for Fréchet distances alone; the other metrics need images",
                    reference.spec);
  }
  if (!sets) return pair_by_name(reference, other, limit);
  if (!choice.reference) return unpaired(reference.source.get(), *other.source, limit);
  return unpaired(reference.source.get(), *limited(other.source, limit));  // the file's are all due
}

}  // namespace

std::map<std::string, double> compare_images(const NamedSource& reference, const NamedSource& other,
                                             const MetricChoice& choice, c10::Device device,
                                             int64_t limit) {
  const NamedSource known{reference.spec,
                          choice.reference ? choice.reference->images : reference.source};
  const auto pairs = pairs_of(known, other, choice, limit);
  const auto count = [&](auto side) {
    return std::ranges::count_if(pairs, [&](const Pair& pair) { return (pair.*side).has_value(); });
  };
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = 0,
                                   .device = device,
                                   .reference = choice.reference});
  require_images(choice.names, count(&Pair::other), other.spec);
  for_each_batch(
      "metrics", std::ssize(pairs), [&](int64_t i) { return load_pair(known, other, pairs[i]); },
      [&](const EvalBatch& batch) { metrics.add(batch); });
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>(count(&Pair::other));
  const int64_t behind =
      choice.reference ? choice.reference->image_count() : count(&Pair::reference);
  if (behind > 0 && compares_sets(choice)) values["reference_images"] = static_cast<double>(behind);
  warn_of_few_images(choice, values);
  return values;
}

}  // namespace nsvq
