// One latent's scores with a panel of codes, held in the registers of a thread block.
#pragma once

#include "nsvq/ops/code_search/blocked/blocked_measure.cuh"

namespace nsvq::blocked {

__device__ inline State untouched() { return {0, 0, 0, kAbsent, kAbsent, kAbsent, -1}; }

struct Least {
  float of_thread, of_block;  ///< scores
  float upper;                ///< least s + E that is known of the panel's codes
};

/// Which codes may be nearest, given that the nearest has an exact score of at most `upper`.
struct Limits {
  RowNorms latent;
  float upper, product_error;
  __device__ float of(const RowNorms& code) const {
    return upper + score_error(latent, code, product_error);
  }
};

struct Terms {
  double sum, moment;
};

__device__ inline void add_terms(const Terms& terms, State& state) {
  state.sum += terms.sum;
  state.moment += terms.moment;
}

/// e and e (s - reference) of one score.
__device__ inline Terms terms_of(float score, float reference, float rate) {
  const float above = score - reference;
  const float e = exp2f(-above * rate);
  return {e, static_cast<double>(e) * above};
}

/// Adds the sums of `part`, and its code unless that is the winner.
__device__ inline void add_state(const State& part, int32_t winner, float rate, State& state) {
  const double above = static_cast<double>(part.reference) - state.reference;
  const double share = exp2f(static_cast<float>(-above * rate));
  add_terms({share * part.sum, share * (part.moment + above * part.sum)}, state);
  if (part.code != winner) add_terms(terms_of(part.score, state.reference, rate), state);
}

/// A row of products and its panel, seen by the thread block that has it.
template <int kBlock>
struct Row {
  static constexpr int kPanel = kBlock * kPerThread, kWarpCount = kBlock / 32;
  static constexpr int kMeasuredAtOnce = 32;  ///< more candidates are measured in fp32 first

  __device__ explicit Row(const Block& block)
      : latent(block.first_latent + blockIdx.x),
        first(static_cast<int>(blockIdx.y) * kPanel),
        products(block.products + blockIdx.x * block.codes.padded) {}

  /// Index, in the block of codes, of a thread's i-th score.
  __device__ int place(int i) const {
    return first + (i / 4 * kBlock + static_cast<int>(threadIdx.x)) * 4 + i % 4;
  }

  __device__ float score(const Block& block, int64_t place) const {
    return score_of(products[place], block.codes.squares[place]);
  }

  __device__ void load(const Block& block, float (&scores)[kPerThread]) const {
#pragma unroll
    for (int i = 0; i < kPerThread; i += 4) {
      const int at = place(i);
      const bool there = at < block.codes.padded;
      const float4 none{0, 0, 0, 0}, far{kAbsent, kAbsent, kAbsent, kAbsent};
      const float4 p = there ? *reinterpret_cast<const float4*>(products + at) : none;
      const float4 q = there ? *reinterpret_cast<const float4*>(block.codes.squares + at) : far;
      scores[i] = score_of(p.x, q.x);
      scores[i + 1] = score_of(p.y, q.y);
      scores[i + 2] = score_of(p.z, q.z);
      scores[i + 3] = score_of(p.w, q.w);
    }
  }

  /// Least scores and upper bound of the row. Any code gives an upper bound; each thread takes that
  /// of its least score.
  __device__ Least least(const Block& block, const RowNorms& own, float product_error,
                         const float (&scores)[kPerThread]) const {
    __shared__ float uppers[kWarpCount], scores_of_warps[kWarpCount];
    float score = kAbsent, upper = kAbsent;
    int at = -1;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (scores[i] < score) {
        score = scores[i];
        at = place(i);
      }
    }
    if (at >= 0) upper = score + score_error(own, block.codes.norms[at], product_error);
    Least all{score, score, upper};
    for (int step = 16; step > 0; step /= 2) {
      all.of_block = fminf(all.of_block, __shfl_xor_sync(~0u, all.of_block, step));
      all.upper = fminf(all.upper, __shfl_xor_sync(~0u, all.upper, step));
    }
    if (lane() == 0) {
      scores_of_warps[threadIdx.x / 32] = all.of_block;
      uppers[threadIdx.x / 32] = all.upper;
    }
    __syncthreads();
    for (int warp = 0; warp < kWarpCount; ++warp) {
      all.of_block = fminf(all.of_block, scores_of_warps[warp]);
      all.upper = fminf(all.upper, uppers[warp]);
    }
    return all;
  }

  /// Indices within the panel of the codes that may be nearest, in any order: there is room for
  /// all.
  static __device__ uint16_t* candidates() {
    __shared__ uint16_t list[kPanel];
    return list;
  }

  /// Lists the candidates and returns their number. The block's widest bounds rule most scores out.
  __device__ int gather(const Block& block, const Limits& limits, float least,
                        const float (&scores)[kPerThread]) const {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const Widest widest = *block.codes.widest;
    const float most = limits.of({__uint_as_float(widest.norm), __uint_as_float(widest.residual)});
    if (__any_sync(~0u, least <= most)) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const bool may = scores[i] <= most && scores[i] <= limits.of(block.codes.norms[place(i)]);
        const uint32_t votes = __ballot_sync(~0u, may);
        if (votes == 0) continue;
        int begin = 0;
        if (lane() == 0) begin = atomicAdd(&count, __popc(votes));
        begin = __shfl_sync(~0u, begin, 0);
        const uint32_t before = votes & ((1u << lane()) - 1);
        if (may) candidates()[begin + __popc(before)] = static_cast<uint16_t>(place(i) - first);
      }
    }
    __syncthreads();
    return count;
  }

  /// The nearest of the listed codes and the code `before`.
  __device__ Nearest nearest(const Block& block, int count, const Nearest& before) const {
    __shared__ Nearest of_warps[kWarpCount];
    if (count == 0) return before;
    Nearest best = count <= kWarpCount ? of_few(block, count) : of_many(block, count);
    for (int step = 16; step > 0; step /= 2) {
      const Nearest other{__shfl_xor_sync(~0u, best.distance, step),
                          __shfl_xor_sync(~0u, best.code, step)};
      if (wins(other, best)) best = other;
    }
    if (lane() == 0) of_warps[threadIdx.x / 32] = best;
    __syncthreads();
    best = before;
    for (const Nearest& other : of_warps) {
      if (wins(other, best)) best = other;
    }
    return best;
  }

  /// Sums over the panel without the winner, the code `winner` of the block; for thread 0.
  __device__ Terms terms(float reference, float rate, int64_t winner,
                         const float (&scores)[kPerThread]) const {
    __shared__ Terms of_warps[kWarpCount];
    float sum = 0, moment = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const float above = scores[i] - reference;
      const float e = place(i) == winner ? 0.0f : exp2f(-above * rate);
      sum += e;
      moment = fmaf(e, above, moment);
    }
    sum = warp_sum(sum);
    moment = warp_sum(moment);
    if (lane() == 0) of_warps[threadIdx.x / 32] = {sum, moment};
    __syncthreads();
    Terms all{0, 0};
    if (threadIdx.x > 0) return all;
    for (const Terms& one : of_warps) {
      all.sum += one.sum;
      all.moment += one.moment;
    }
    return all;
  }

  int64_t latent;
  int first;  ///< index of the panel's first code in the block
  const float* products;

 private:
  /// A candidate and its values.
  struct Listed {
    __device__ Listed(const Row& row, const Block& block, int i)
        : code(block.first_code + row.first + candidates()[i]),
          values(block.given_codes.values + code * block.frame.dimension) {}
    int64_t code;
    const float* values;
  };

  __device__ const float* own(const Block& block) const {
    return block.given_latents.values + latent * block.frame.dimension;
  }

  /// The nearest of at most one candidate per warp.
  __device__ Nearest of_few(const Block& block, int count) const {
    const auto warp = static_cast<int>(threadIdx.x / 32);
    if (warp >= count) return {0, -1};
    const Listed one(*this, block, warp);
    return {measured_by_warp(own(block), one.values, block.frame.dimension), one.code};
  }

  /// The nearest of a thread's share of the candidates. Where there are many, as when codes lie
  /// close together, fp32 distances rule most of them out. Which ones are measured in fp64 depends
  /// on the order of threads; the result does not.
  __device__ Nearest of_many(const Block& block, int count) const {
    __shared__ uint32_t least;
    if (threadIdx.x == 0) least = __float_as_uint(kAbsent);
    __syncthreads();
    const int64_t d = block.frame.dimension;
    const float shrink = 1.0f - 3.0f * static_cast<float>(d + 4) * 0x1p-24f;
    Nearest best{0, -1};
    for (int i = static_cast<int>(threadIdx.x); i - lane() < count; i += kBlock) {
      const bool there = i < count;
      const Listed one(*this, block, there ? i : 0);
      bool may = there;
      if (count > kMeasuredAtOnce) {
        const float rough = there ? roughly_measured(own(block), one.values, d) : kAbsent;
        may = near_least(rough, shrink, &least) && there;
      }
      if (!may) continue;
      const Nearest other{measured(own(block), one.values, d), one.code};
      if (wins(other, best)) best = other;
    }
    return best;
  }
};

}  // namespace nsvq::blocked
