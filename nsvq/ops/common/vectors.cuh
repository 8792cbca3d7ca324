// V adjacent numbers of a tensor, read and written at once.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

namespace nsvq::vectors {

template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

template <int V, typename T>
__device__ Pack<T, V> load(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}

template <int V, typename T>
__device__ void store(const Pack<T, V>& from, T* to) {
  *reinterpret_cast<Pack<T, V>*>(to) = from;
}

/// A pack as floats. bf16 is the upper half of a float: a shift or a mask for each.
template <typename T, int V>
__device__ void unpack(const Pack<T, V>& pack, float (&x)[V]) {
  if constexpr (std::is_same_v<T, c10::BFloat16> && V % 2 == 0) {
    const auto* words = reinterpret_cast<const unsigned*>(&pack);
#pragma unroll
    for (int i = 0; i < V / 2; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] = static_cast<float>(pack.values[v]);
  }
}

}  // namespace nsvq::vectors
