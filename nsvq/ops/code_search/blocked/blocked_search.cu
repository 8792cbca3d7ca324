// Nearest codes and sums of the NS loss from blocks of products (blocked.h).
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/blocked/blocked_row.cuh"

namespace nsvq::blocked {

namespace {

constexpr int kResident = 768;  ///< threads on a processor at least, to keep its memory busy

/// Updates one latent's state with a panel of the block's codes, by a thread block.
template <int kBlock, bool kSums>
__global__ void __launch_bounds__(kBlock, kResident / kBlock)
    sweep_kernel(const __grid_constant__ Block block, float product_error) {
  const Row<kBlock> row(block);
  const RowNorms own = block.latents.norms[row.latent];
  if (own.norm < 0) return;
  State& state = block.states[int64_t{blockIdx.y} * block.given_latents.rows + row.latent];
  const State before = block.first_code == 0 ? untouched() : state;

  float scores[kPerThread];
  row.load(block, scores);
  const Least least = row.least(block, own, product_error, scores);
  const Limits limits{own, fminf(before.upper, least.upper), product_error};
  const int found = row.gather(block, limits, least.of_thread, scores);
  const Nearest best = row.nearest(block, found, {before.distance, before.code});

  State after = before;
  after.upper = limits.upper;
  after.reference = fminf(before.reference, least.of_block);
  after.distance = best.distance;
  after.code = static_cast<int32_t>(best.code);
  if (best.code != before.code) after.score = row.score(block, best.code - block.first_code);
  if constexpr (kSums) {
    const float rate = block.frame.unit->rate;
    const Terms terms = row.terms(after.reference, rate, best.code - block.first_code, scores);
    if (threadIdx.x > 0) return;
    after.sum = after.moment = 0;
    add_terms(terms, after);
    if (before.code >= 0) add_state(before, after.code, rate, after);
  }
  if (threadIdx.x == 0) state = after;
}

/// The state of a latent merged from all splits.
__device__ State merged(const Block& block, int64_t latent, int splits, float rate) {
  const auto part = [&](int split) -> const State& {
    return block.states[split * block.given_latents.rows + latent];
  };
  State all = part(0);
  for (int split = 1; split < splits; ++split) {
    const State& other = part(split);
    all.reference = fminf(all.reference, other.reference);
    if (!wins({other.distance, other.code}, {all.distance, all.code})) continue;
    all.distance = other.distance;
    all.code = other.code;
    all.score = other.score;
  }
  all.sum = all.moment = 0;
  for (int split = 0; split < splits; ++split) add_state(part(split), all.code, rate, all);
  return all;
}

/// Writes loss and denominator from the sums over all codes but the winner. Scores are compared
/// with the winner's own score, so that errors which all codes of a latent share cancel; the
/// winner's distance is exact. No code is nearer than the winner, which bounds both where products
/// leave no digit.
__device__ void write_loss(const State& all, const Unit& unit, int64_t codes, int64_t latent,
                           const Results& results) {
  const double above = static_cast<double>(all.score) - all.reference;
  const double lift = exp2(fmin(above * unit.rate, 1000.0));
  const double others = fmin(lift * all.sum, static_cast<double>(codes - 1));
  const double excess = all.sum > 0 ? fmax(all.moment / all.sum - above, 0.0) : 0;
  const double distance = all.distance + excess / (static_cast<double>(unit.scale) * unit.scale);
  results.losses[latent] = static_cast<float>(others * distance / (1 + others));
  results.denominators[latent] = static_cast<float>(1 + others);
}

__global__ void __launch_bounds__(kThreads)
    finish_kernel(const __grid_constant__ Block block, int splits, Results results) {
  const int64_t latent = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (latent >= block.given_latents.rows) return;
  const float nan = __int_as_float(0x7fc00000);
  const bool none = block.latents.norms[latent].norm < 0;
  const Unit unit = *block.frame.unit;
  const State all = none ? untouched() : merged(block, latent, splits, unit.rate);
  results.indices[latent] = all.code;
  results.distances[latent] = none ? nan : static_cast<float>(all.distance);
  if (!results.losses) return;
  results.losses[latent] = results.denominators[latent] = nan;
  if (!none) write_loss(all, unit, block.given_codes.rows, latent, results);
}

template <int kBlock>
void sweep(const Block& block, cudaStream_t stream) {
  constexpr int64_t kPanel = kBlock * kPerThread;
  const dim3 grid(static_cast<unsigned>(block.count),
                  static_cast<unsigned>((block.codes.padded + kPanel - 1) / kPanel));
  const float error = product_error(block.frame.dimension);
  if (block.frame.with_loss) {
    sweep_kernel<kBlock, true><<<grid, kBlock, 0, stream>>>(block, error);
  } else {
    sweep_kernel<kBlock, false><<<grid, kBlock, 0, stream>>>(block, error);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void sweep_block(const Block& block, cudaStream_t stream) {
  if (panel_for(block.given_codes.rows) == 64 * kPerThread) {
    sweep<64>(block, stream);
  } else {
    sweep<256>(block, stream);
  }
}

void finish_search(const Block& block, int splits, const Results& results, cudaStream_t stream) {
  const auto blocks = (block.given_latents.rows + kThreads - 1) / kThreads;
  finish_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(block, splits, results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq::blocked
