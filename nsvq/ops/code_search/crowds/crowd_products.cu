// Products of the latents in crowds with the codes about their centres (crowds.h).
//
// The codes are dealt to the blocks in turn, and a thread has one code at a time. It compares its
// code with the centres of all crowds, 32 at a time: by 16 columns first, which nearly all codes
// fail, and then by marks where there are any. Codes that belong to a crowd are rounded, as
// differences to its centre, into shared memory, ordered by crowd; then each warp multiplies 16
// latents of a crowd at a time with the crowd's codes there, on the tensor cores.

#include "nsvq/ops/code_search/crowds/crowd_mma.cuh"
#include "nsvq/ops/code_search/crowds/sort_crowds.cuh"

namespace nsvq {

namespace {

using namespace crowds;

constexpr int kColumns = 16;

/// The centres of up to kCentres crowds.
struct Centres {
  float columns[kCentres][kColumns];
  float limits[kCentres];
  /// A crowd has `sizes` latents, from `starts` on.
  int32_t codes[kCentres], sizes[kCentres], starts[kCentres];

  __device__ void load(const Problem& problem, int first, int count) {
    const Crowds& crowds = problem.crowds;
    const int64_t d = problem.dimension;
    for (int i = threadIdx.x; i < kCentres * kColumns; i += blockDim.x) {
      const int crowd = i / kColumns, column = i % kColumns;
      const bool there = first + crowd < count;
      const int32_t code = there ? crowds.centres[first + crowd] : -1;
      columns[crowd][column] = there && column < d ? problem.codes.values[code * d + column] : 0.0f;
      if (column > 0) continue;
      codes[crowd] = code;
      limits[crowd] = there ? __int_as_float(crowds.limits[code]) : -1.0f;
      sizes[crowd] = there ? crowds.sizes[code] : 0;
      starts[crowd] = there ? __ldcg(crowds.firsts + code) : 0;
    }
  }

  /// The crowds to which a code may belong, by its first columns: a bit for each.
  __device__ uint32_t near(const float* code, int64_t d) const {
    float own[kColumns];
#pragma unroll
    for (int k = 0; k < kColumns; ++k) own[k] = k < d ? code[k] : 0.0f;
    uint32_t bits = 0;
#pragma unroll 4
    for (int i = 0; i < kCentres; ++i) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        const float difference = own[k] - columns[i][k];
        sum = fmaf(difference, difference, sum);
      }
      if (sum <= limits[i]) bits |= 1u << i;
    }
    return bits;
  }
};

/// Bitmask of the crowds first, ..., first + 31 (first is a multiple of 32) that must test this
/// code: those of `near` for which it is marked or that have no marks. Past the last crowd marks
/// are not set, and `near` is 0.
__device__ uint32_t marked_for(const Crowds& crowds, int64_t code, int first, uint32_t near) {
  static_assert(kCentres == 32, "a bit of a word each");
  if (first >= crowds.marked) return near;
  const auto* words =
      reinterpret_cast<const uint4*>(crowds.marks + code / 32 * crowds.marked + first);
  const auto bit = static_cast<int>(code % 32);
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < kCentres; i += 4) {
    const uint4 four = __ldcg(words + i / 4);
    bits |= (four.x >> bit & 1) << i | (four.y >> bit & 1) << (i + 1) |
            (four.z >> bit & 1) << (i + 2) | (four.w >> bit & 1) << (i + 3);
  }
  return near & bits;
}

/// Whether a code belongs to a crowd. A code equal to the centre with a higher index cannot win.
__device__ bool belongs(const Problem& problem, int32_t code, int32_t centre, float limit) {
  const int64_t d = problem.dimension;
  const float* a = problem.codes.values + code * d;
  const float* b = problem.codes.values + centre * d;
  float sum = 0;
  bool equal = true;
  const auto add = [&](float one, float other) {
    equal = equal && one == other;
    sum = fmaf(one - other, one - other, sum);
  };
  const int64_t in_fours = d % 4 == 0 ? d : 0;
#pragma unroll 8
  for (int64_t k = 0; k < in_fours; k += 4) {
    const float4 one = *reinterpret_cast<const float4*>(a + k);
    const float4 other = *reinterpret_cast<const float4*>(b + k);
    add(one.x, other.x);
    add(one.y, other.y);
    add(one.z, other.z);
    add(one.w, other.w);
  }
#pragma unroll 8
  for (int64_t k = in_fours; k < d; ++k) add(a[k], b[k]);
  return sum <= limit && !(equal && code > centre);
}

/// Rounds the codes in shared memory; a warp loads four at a time to hide latency.
template <int kPanels>
__device__ void load_rows(const Problem& problem, const Centres& centres, float scale,
                          const Shares& shares, Rows<kPanels>& rows) {
  constexpr int kBatch = 4;
  const int64_t d = problem.dimension;
  const int step = static_cast<int>(blockDim.x) / 32, count = shares.rows();
  for (int first = threadIdx.x / 32; first < count; first += kBatch * step) {
    packing::Lane<kPanels> code[kBatch], centre[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = min(first + k * step, count - 1);
      code[k].load(problem.codes.values + rows.codes[i] * d, d);
      centre[k].load(problem.codes.values + centres.codes[rows.crowds[i]] * d, d);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = first + k * step;
      if (i >= count) break;
      const Difference difference = pack_difference<kPanels>(
          code[k], centre[k], scale, rows.values + i * Rows<kPanels>::kPitch);
      if (threadIdx.x % 32 == 0) rows.differences[i] = difference;
    }
  }
}

/// Multiplies the latents of all crowds with the codes in shared memory. The indices of the next
/// latents are loaded ahead.
template <int kPanels>
__device__ void multiply_rows(const Crowds& crowds, const Centres& centres, const Shares& shares,
                              Rows<kPanels>& rows) {
  const int step = static_cast<int>(blockDim.x) / 32, last = shares.tiles() - 1;
  HitQueue& queue = rows.queues[threadIdx.x / 32];
  int i = static_cast<int>(threadIdx.x) / 32;
  if (i > last) return;
  const auto tile_at = [&](int at) {
    return Tile(crowds, centres.sizes, centres.starts, shares, min(at, last));
  };
  Tile next = tile_at(i);
  for (; i <= last; i += step) {
    const Tile tile = next;
    next = tile_at(i + step);
    find_hits<kPanels>(crowds, tile, shares, rows, queue);
  }
}

/// Tests the code of each thread against up to 32 crowds; `near` has those that are still to be
/// done. There is room for `room` codes at a time.
template <int kPanels>
__device__ void take_codes(const Problem& problem, const Centres& centres, float scale,
                           int32_t code, uint32_t near, int room, Shares& shares,
                           Rows<kPanels>& rows) {
  while (__syncthreads_or(near != 0)) {
    shares.clear();
    __syncthreads();
    const int crowd = near ? __ffs(near) - 1 : 0;
    const bool member = near && belongs(problem, code, centres.codes[crowd], centres.limits[crowd]);
    const int rank = member ? shares.add(crowd) : 0;
    __syncthreads();
    shares.place(centres.sizes, room);
    __syncthreads();
    const int row = member ? shares.firsts[crowd] + rank : 0;
    if (row < room) near &= near - 1;  // else it has no room in this round
    if (member && row < room) {
      rows.codes[row] = code;
      rows.crowds[row] = crowd;
    }
    __syncthreads();
    load_rows(problem, centres, scale, shares, rows);
    __syncthreads();
    multiply_rows(problem.crowds, centres, shares, rows);
  }
}

template <int kPanels>
__global__ void __launch_bounds__(threads_for(kPanels), 1)
    crowd_kernel(const __grid_constant__ Problem problem, int room) {
  const int crowds = problem.crowds.counts[1];
  if (crowds == 0) return;
  const bool are_marked = problem.crowds.are_marked();
  sort_once(problem.crowds);
  extern __shared__ __align__(16) uint8_t shared[];
  auto& rows = *reinterpret_cast<Rows<kPanels>*>(shared);
  __shared__ Centres centres;
  __shared__ Shares shares;
  const float scale = unit_of(problem.pass.range, 0).scale;
  const int64_t d = problem.dimension, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t first = 0; first < problem.codes.rows; first += step) {
    const int64_t code = first + int64_t{gridDim.x} * threadIdx.x + blockIdx.x;
    const bool there = code < problem.codes.rows;
    const float* values = problem.codes.values + (there ? code : 0) * d;
    for (int c = 0; c < crowds; c += kCentres) {
      __syncthreads();
      centres.load(problem, c, crowds);
      __syncthreads();
      uint32_t near = there ? centres.near(values, d) : 0;
      if (near && are_marked) near = marked_for(problem.crowds, code, c, near);
      take_codes<kPanels>(problem, centres, scale, static_cast<int32_t>(there ? code : 0), near,
                          room, shares, rows);
    }
  }
}

}  // namespace

void multiply_crowds(const Problem& problem, int processors, int64_t shared_limit,
                     cudaStream_t stream) {
  constexpr int64_t kStaticBytes = 4096;
  static_assert(sizeof(Centres) + sizeof(Shares) + 64 <= kStaticBytes);
  packing::for_panels(problem.dimension, [&](auto panels) {
    const int room = Rows<panels>::rows_in(shared_limit - kStaticBytes);
    const int bytes = Rows<panels>::bytes_for(room);
    const auto kernel = crowd_kernel<panels>;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<processors, threads_for(panels), bytes, stream>>>(problem, room);
  });
}

}  // namespace nsvq
