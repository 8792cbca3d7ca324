#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/// Weighted sums of pixels in four 32-bit lanes (red, green, blue, unused), for the two passes of a
/// resize. Sums are exact integers, so the SIMD and the scalar version give equal bits.
namespace nsvq::lanes {

/// Weights have 22 fractional bits, as in Pillow: an 8-bit value times a weight, summed over
/// weights that add up to 1, fits into 32 bits.
inline constexpr int kWeightBits = 22;
inline constexpr int32_t kHalf = 1 << (kWeightBits - 1);
/// add_taps() reads up to this many bytes, counted from its first pixel.
inline constexpr size_t kTapBytes = 16;

/// The weights of two neighbouring pixels.
struct WeightPair {
  int32_t a, b;
};

#if defined(__SSE2__)

// SSE2 multiplies 16-bit numbers and adds the products in pairs. A weight is low + 128 high, where
// high must fit in 15 bits although a weight may be 1 << 22.
struct Sum {
  __m128i low = _mm_set1_epi32(kHalf), high = _mm_setzero_si128();
};

inline WeightPair pair_weights(int32_t first, int32_t second) {
  const int32_t high0 = std::min(first >> 7, 32767), high1 = std::min(second >> 7, 32767);
  return {(first - 128 * high0) | (second - 128 * high1) << 16, high0 | high1 << 16};
}

/// `pairs`: 16-bit (first, second) for each channel.
inline void add(Sum& sum, __m128i pairs, __m128i low, __m128i high) {
  sum.low = _mm_add_epi32(sum.low, _mm_madd_epi16(pairs, low));
  sum.high = _mm_add_epi32(sum.high, _mm_madd_epi16(pairs, high));
}

inline __m128i total(const Sum& sum) {
  return _mm_srai_epi32(_mm_add_epi32(sum.low, _mm_slli_epi32(sum.high, 7)), kWeightBits);
}

inline __m128i load_word(const uint8_t* bytes) {
  int32_t word;
  std::memcpy(&word, bytes, 4);
  return _mm_cvtsi32_si128(word);
}

/// Adds the RGB pixel at `rgb` and the one after it.
inline void add_taps(Sum& sum, const uint8_t* rgb, const WeightPair& weights) {
  const __m128i bytes = _mm_unpacklo_epi8(load_word(rgb), load_word(rgb + 3));
  add(sum, _mm_unpacklo_epi8(bytes, _mm_setzero_si128()), _mm_set1_epi32(weights.a),
      _mm_set1_epi32(weights.b));
}

/// Adds four RGBX pixels of a row and the four below them.
inline void add_rows(Sum (&sums)[4], const uint8_t* row, const uint8_t* below,
                     const WeightPair& weights) {
  const __m128i low = _mm_set1_epi32(weights.a), high = _mm_set1_epi32(weights.b);
  const __m128i zero = _mm_setzero_si128();
  const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
  const __m128i lower = _mm_loadu_si128(reinterpret_cast<const __m128i*>(below));
  const __m128i left = _mm_unpacklo_epi8(upper, lower), right = _mm_unpackhi_epi8(upper, lower);
  add(sums[0], _mm_unpacklo_epi8(left, zero), low, high);
  add(sums[1], _mm_unpackhi_epi8(left, zero), low, high);
  add(sums[2], _mm_unpacklo_epi8(right, zero), low, high);
  add(sums[3], _mm_unpackhi_epi8(right, zero), low, high);
}

/// Writes one RGBX pixel, rounded; the packing instructions saturate at 255.
inline void store(uint8_t* rgbx, const Sum& sum) {
  const __m128i words = _mm_packs_epi32(total(sum), total(sum));
  const int32_t word = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  std::memcpy(rgbx, &word, 4);
}

inline void store(uint8_t* rgbx, const Sum (&sums)[4]) {
  const __m128i left = _mm_packs_epi32(total(sums[0]), total(sums[1]));
  const __m128i right = _mm_packs_epi32(total(sums[2]), total(sums[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rgbx), _mm_packus_epi16(left, right));
}

#elif defined(__aarch64__) && defined(__ARM_NEON)

struct Sum {
  int32x4_t value = vdupq_n_s32(kHalf);
};

inline WeightPair pair_weights(int32_t first, int32_t second) { return {first, second}; }

inline int32x4_t widened(uint16x4_t channels) { return vreinterpretq_s32_u32(vmovl_u16(channels)); }

inline void add_taps(Sum& sum, const uint8_t* rgb, const WeightPair& weights) {
  // Source byte of each byte of the pixel widened to 32-bit lanes; the index 255 gives 0.
  constexpr uint8_t kFirst[16] = {0, 255, 255, 255, 1,   255, 255, 255,
                                  2, 255, 255, 255, 255, 255, 255, 255};
  constexpr uint8_t kSecond[16] = {3, 255, 255, 255, 4,   255, 255, 255,
                                   5, 255, 255, 255, 255, 255, 255, 255};
  const int32x2_t both = vld1_s32(&weights.a);
  const uint8x16_t bytes = vld1q_u8(rgb);
  const int32x4_t first = vreinterpretq_s32_u8(vqtbl1q_u8(bytes, vld1q_u8(kFirst)));
  const int32x4_t second = vreinterpretq_s32_u8(vqtbl1q_u8(bytes, vld1q_u8(kSecond)));
  sum.value = vmlaq_lane_s32(vmlaq_lane_s32(sum.value, first, both, 0), second, both, 1);
}

inline void add_row(Sum (&sums)[4], const uint8_t* row, int32_t weight) {
  const uint8x16_t bytes = vld1q_u8(row);
  const uint16x8_t left = vmovl_u8(vget_low_u8(bytes)), right = vmovl_u8(vget_high_u8(bytes));
  sums[0].value = vmlaq_n_s32(sums[0].value, widened(vget_low_u16(left)), weight);
  sums[1].value = vmlaq_n_s32(sums[1].value, widened(vget_high_u16(left)), weight);
  sums[2].value = vmlaq_n_s32(sums[2].value, widened(vget_low_u16(right)), weight);
  sums[3].value = vmlaq_n_s32(sums[3].value, widened(vget_high_u16(right)), weight);
}

inline void add_rows(Sum (&sums)[4], const uint8_t* row, const uint8_t* below,
                     const WeightPair& weights) {
  add_row(sums, row, weights.a);
  add_row(sums, below, weights.b);
}

inline uint16x4_t total(const Sum& sum) { return vqmovun_s32(vshrq_n_s32(sum.value, kWeightBits)); }

inline void store(uint8_t* rgbx, const Sum& sum) {
  const uint8x8_t bytes = vqmovn_u16(vcombine_u16(total(sum), total(sum)));
  const uint32_t word = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
  std::memcpy(rgbx, &word, 4);
}

inline void store(uint8_t* rgbx, const Sum (&sums)[4]) {
  const uint16x8_t left = vcombine_u16(total(sums[0]), total(sums[1]));
  const uint16x8_t right = vcombine_u16(total(sums[2]), total(sums[3]));
  vst1q_u8(rgbx, vcombine_u8(vqmovn_u16(left), vqmovn_u16(right)));
}

#else

struct Sum {
  int32_t value[4] = {kHalf, kHalf, kHalf, kHalf};
};

inline WeightPair pair_weights(int32_t first, int32_t second) { return {first, second}; }

inline void add_taps(Sum& sum, const uint8_t* rgb, const WeightPair& weights) {
  for (int c = 0; c < 3; ++c) sum.value[c] += rgb[c] * weights.a + rgb[c + 3] * weights.b;
}

inline void add_rows(Sum (&sums)[4], const uint8_t* row, const uint8_t* below,
                     const WeightPair& weights) {
  for (int i = 0; i < 16; ++i)
    sums[i / 4].value[i % 4] += row[i] * weights.a + below[i] * weights.b;
}

inline void store(uint8_t* rgbx, const Sum& sum) {
  for (int c = 0; c < 4; ++c)
    rgbx[c] = static_cast<uint8_t>(std::min(sum.value[c] >> kWeightBits, 255));
}

inline void store(uint8_t* rgbx, const Sum (&sums)[4]) {
  for (int i = 0; i < 4; ++i) store(rgbx + 4 * i, sums[i]);
}

#endif

}  // namespace nsvq::lanes
