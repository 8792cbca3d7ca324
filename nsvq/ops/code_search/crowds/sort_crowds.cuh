// Latents sorted by crowd (crowds.h).
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"

namespace nsvq::crowds {

/// Sorts the latents by crowd, by one block.
__device__ inline void sort_latents(const Crowds& crowds) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  const int latents = crowds.counts[0], count = crowds.counts[1];
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int centre = crowds.centres[i];
    __stcg(crowds.firsts + centre, atomicAdd(&next, crowds.sizes[centre]));
  }
  __syncthreads();
  constexpr int kBatch = 8;  // loads in flight, to hide latency
  for (int first = threadIdx.x; first < latents; first += kBatch * blockDim.x) {
    CrowdMember member[kBatch];
    int place[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      member[i] = crowds.members[min(first + i * static_cast<int>(blockDim.x), latents - 1)];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      place[i] = member[i].rank + __ldcg(crowds.firsts + member[i].centre);
    }
    // Entries past the last repeat the last one.
#pragma unroll
    for (int i = 0; i < kBatch; ++i) __stcg(crowds.latents + place[i], member[i].latent);
  }
}

/// The first block to come sorts, and the others wait for it: it is running already, so it will
/// end.
__device__ inline void sort_once(const Crowds& crowds) {
  __shared__ bool first;
  if (threadIdx.x == 0) first = atomicAdd(crowds.counts + 2, 1) == 0;
  __syncthreads();
  if (first) {
    sort_latents(crowds);
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicExch(crowds.counts + 3, 1);
    }
  } else if (threadIdx.x == 0) {
    while (atomicAdd(crowds.counts + 3, 0) == 0) __nanosleep(200);
    __threadfence();
  }
  __syncthreads();
}

}  // namespace nsvq::crowds
