// Conversion of blocks between the operator's types and fp32.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>
#include <vector>

namespace nsvq::group_norm_cpu {

void convert(const c10::BFloat16* from, int64_t count, float* to);
void convert(const float* from, int64_t count, c10::BFloat16* to);
void convert(const c10::Half* from, int64_t count, float* to);
void convert(const float* from, int64_t count, c10::Half* to);

/// Calls body(T{}) for one of the types that the operator takes.
template <typename Body>
void for_type(c10::ScalarType type, const Body& body) {
  if (type == c10::ScalarType::Float) return body(float{});
  if (type == c10::ScalarType::Half) return body(c10::Half{});
  body(c10::BFloat16{});
}

/// A block as fp32: itself, or a converted copy in `room`.
template <typename T>
const float* as_floats(const T* from, int64_t count, std::vector<float>& room) {
  if constexpr (std::is_same_v<T, float>) {
    return from;
  } else {
    room.resize(count);
    convert(from, count, room.data());
    return room.data();
  }
}

/// Where to write a block in fp32: `to` itself, or `room`, which `put` converts to it.
template <typename T>
float* room_for(T* to, int64_t count, std::vector<float>& room) {
  if constexpr (std::is_same_v<T, float>) {
    return to;
  } else {
    room.resize(count);
    return room.data();
  }
}

template <typename T>
void put(const std::vector<float>& room, int64_t count, T* to) {
  if constexpr (!std::is_same_v<T, float>) convert(room.data(), count, to);
}

}  // namespace nsvq::group_norm_cpu
