#include "nsvq/data/loader/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "nsvq/core/random.h"

namespace nsvq {

std::vector<int64_t> permutation(int64_t size, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  Random random(combine_seeds({seed, static_cast<uint64_t>(epoch)}));
  for (int64_t i = size - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

int64_t Sampler::slots() const {
  if (shuffle) return images / world;
  return images > rank ? (images - rank - 1) / world + 1 : 0;
}

int64_t Sampler::batches() const {
  const int64_t whole = slots() / batch_size;
  return shuffle || slots() % batch_size == 0 ? whole : whole + 1;
}

int64_t Sampler::batch_slots(int64_t batch) const {
  return std::min(batch_size, slots() - batch * batch_size);
}

int64_t Sampler::position(int64_t slot) const {
  const int64_t batch = slot / batch_size;
  // The rest of an epoch, less than a batch per rank, is assigned to the ranks one by one.
  if (!shuffle || batch >= batches()) return rank + slot * world;
  return (batch * world + rank) * batch_size + slot % batch_size;
}

std::vector<int64_t> Sampler::order(int64_t epoch) const {
  if (shuffle) return permutation(images, seed, epoch);
  std::vector<int64_t> order(images);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace nsvq
