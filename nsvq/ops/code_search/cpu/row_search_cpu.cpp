#include "nsvq/ops/code_search/cpu/row_search_cpu.h"

#include <algorithm>
#include <cmath>

#include "nsvq/ops/code_search/cpu/exact_distance_cpu.h"
#include "nsvq/ops/code_search/cpu/tile_products_cpu.h"
#include "nsvq/ops/common/vectors_cpu.h"

namespace nsvq {

float& RowWeights::of(int64_t code) const { return first[code / kPanel * stride + code % kPanel]; }

void RowSearch::drop_beaten() {
  std::erase_if(candidates_,
                [this](const Candidate& one) { return one.score - one.error > upper_; });
}

int64_t RowSearch::note_candidates(const float* scores, float least, int64_t panel, int64_t count) {
  const float limit = std::min(best_, least) + slack_;
  int64_t first = -1;
  if (least > limit) return first;
  const auto& kernels = tile_kernels();
  for (int64_t p = kernels.next_within(scores, 0, count, limit); p < count;
       p = kernels.next_within(scores, p + 1, count, limit)) {
    for (int64_t j = 0; j < kPanel; ++j) {
      const float score = scores[p * kStrip * kPanel + j];
      if (score > limit) continue;
      const int64_t code = (panel + p) * kPanel + j;
      if (first < 0 && score == least) first = code;
      // The bound by the code's own norm: a few large codes make the common bound too wide.
      const double error = errors_.of(1.0001 * std::sqrt(static_cast<double>(norms_[code])));
      upper_ = std::min(upper_, score + error);
      if (score - error > upper_) continue;
      if (candidates_.size() == candidates_.capacity()) drop_beaten();
      candidates_.push_back({code, score, error});
    }
  }
  return first;
}

void RowSearch::replace_best(float score, int64_t code) {
  if (best_code_ >= 0 && rate_ > 0) {
    const double gap = static_cast<double>(best_) - score, shrink = std::exp2(-gap * rate_);
    scored_ = shrink * (scored_ + gap * (sum_ + 1));
    sum_ = shrink * (sum_ + 1);
    if (kept_.first) kept_.of(best_code_) = 1;
  }
  best_ = score;
  best_code_ = code;
}

float RowSearch::meet(float* scores, float least, int64_t panel, int64_t count) {
  const int64_t first = note_candidates(scores, least, panel, count);
  const bool leads = least < best_;
  if (leads) replace_best(least, first);
  if (rate_ == 0) return best_;
  if (leads) {
    scores[(first / kPanel - panel) * kStrip * kPanel + first % kPanel] =
        std::numeric_limits<float>::infinity();
  }
  float* weights = kept_.first ? kept_.first + panel * kept_.stride : scores;
  const int64_t stride = kept_.first ? kept_.stride : kStrip * kPanel;
  if ((best_ - least) * rate_ < kLeastExponent) {
    if (kept_.first) {
      for (int64_t p = 0; p < count; ++p) std::fill_n(weights + p * stride, kPanel, 0.0f);
    }
    return best_;
  }
  const auto sums = tile_kernels().weigh(scores, count, best_, rate_, weights, stride);
  sum_ += sums.weights;
  scored_ -= static_cast<double>(sums.scored) / rate_;
  return best_;
}

RowResult RowSearch::finish(const float* latent, const float* codebook, int64_t dimension) {
  drop_beaten();
  RowResult result{};
  result.distance = std::numeric_limits<double>::infinity();
  result.least = best_;
  float score = best_;
  for (const auto& one : candidates_) {
    const double distance = exact_distance(latent, codebook + one.code * dimension, dimension);
    if (distance < result.distance) {
      result.distance = distance;
      result.index = one.code;
      score = one.score;
    }
  }
  if (rate_ > 0) complete(result, score);
  return result;
}

// Where the winner is not the code of least score, that code's term joins the sums and the winner's
// is subtracted. Both weigh about 1 there, so that nothing is lost by the subtraction.
void RowSearch::complete(RowResult& result, float winners_score) {
  double own = 1;
  const double behind = static_cast<double>(winners_score) - best_;
  if (result.index != best_code_) {
    own = std::exp2(-behind * rate_);
    sum_ = std::max(sum_ + 1 - own, 0.0);
    scored_ = std::max(scored_ - own * behind, 0.0);
    if (kept_.first) {
      kept_.of(best_code_) = 1;
      kept_.of(result.index) = 0;
    }
  }
  const double base = result.distance - behind;
  result.share = 1 / (own + sum_);
  result.loss = (scored_ + base * sum_) * result.share;
  // Beyond this ratio fp32 scores do not tell the two apart any better than these weights.
  result.denominator = 1 + sum_ / std::max(own, 1e-30);
}

}  // namespace nsvq
