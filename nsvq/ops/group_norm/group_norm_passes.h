// GroupNorm + SiLU and its gradient on a GPU, channels-last. Bound by memory, so the input is read
// in 16-byte vectors: twice, for the statistics and for the result.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>

#include "nsvq/ops/common/grid.h"

// A namespace of its own, not an anonymous one, since several files share these types.
namespace nsvq::group_norm_cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// Pixels that a thread loads at a time: enough to hide latency, and few enough for its registers.
constexpr int kForwardBatch = 4, kBackwardBatch = 2;

/// Channels in a vector of 16 bytes.
template <typename T>
constexpr int kVector = 16 / sizeof(T);

struct Shape {
  int64_t images;
  int pixels, channels, groups;
  __host__ __device__ int group_size() const { return channels / groups; }
};

/// Weight or bias [channels], or its gradient: floats (`wide`) or of the images' type, read and
/// written as it is, since a conversion would be a launch of its own.
template <typename T>
struct Parameter {
  void* data;
  bool wide;

  __device__ float operator[](int channel) const {
    if (wide) return static_cast<const float*>(data)[channel];
    return static_cast<float>(static_cast<const T*>(data)[channel]);
  }
  __device__ void set(int channel, float value) const {
    if (wide) {
      static_cast<float*>(data)[channel] = value;
    } else {
      static_cast<T*>(data)[channel] = static_cast<T>(value);
    }
  }
};

/// The tensors of a forward or backward pass.
template <typename T>
struct Tensors {
  const T *input, *gradient;
  const T* carried;  ///< another term of the input's gradient, or null
  T* result;
  Parameter<T> weight, bias;
  float *mean, *rstd;  ///< [images, groups]
};

/// Terms added to the input in the pass for the statistics (null: not added), and where the sum
/// goes. It is rounded to the tensors' type, and everything else is computed from it.
template <typename T>
struct Addition {
  const T* other;
  const T* shift;       ///< [images, channels]
  Parameter<T> offset;  ///< [channels]
  T* sum;               ///< null: the sum is not wanted
  const T* skip;        ///< [images, pixels, skip_channels], the sum's last channels, or null
  int skip_channels;    ///< 0 without a skip; nothing is added to them

  bool any() const { return other || shift || offset.data || skip; }
};

/// What the statistics of a group contribute to the gradient: level + (x - mean) * tilt.
struct Pull {
  float level, tilt;
};

/// A block has the pixels of one split of an image, and all channels if there are not too many.
struct Plan {
  int lanes, channel_blocks, splits;
  int pixels_per_split;
};

/// V channels per vector: kVector<T>, or 1. Where `other` is added `sum` must not be null, and
/// there is no skip. partials [images, splits, channels] are scratch memory.
template <typename T, int V>
void launch_forward(const Shape& shape, const Plan& plan, Tensors<T> t, const Addition<T>& addition,
                    float eps, bool silu, float2* partials, cudaStream_t stream);

/// The plan of the forward pass in one kernel, for vectors of `vector` numbers of so many bytes
/// each; nullopt where a group of an image does not fit into the registers of a block, or vectors
/// do not fit into a group.
std::optional<Plan> plan_small_forward(const Shape& shape, int vector, int bytes, int processors);
template <typename T, int V>
void launch_small_forward(const Shape& shape, const Plan& plan, const Tensors<T>& t,
                          const Addition<T>& addition, float eps, bool silu, cudaStream_t stream);

/// Writes sums [images, channels] of du, the gradient of what goes into SiLU, and of du (x - mean).
/// partials [images, splits, channels] and pulls [images, groups] are scratch memory.
template <typename T, int V>
void launch_backward(const Shape& shape, const Plan& plan, const Tensors<T>& t, bool silu,
                     float2* partials, Pull* pulls, float2* sums, cudaStream_t stream);

/// Writes the gradients of weight and bias, from the sums.
template <typename T>
void parameter_gradients(const Shape& shape, const float2* sums, const float* rstd,
                         Parameter<T> weight, Parameter<T> bias, cudaStream_t stream);

}  // namespace nsvq::group_norm_cuda
