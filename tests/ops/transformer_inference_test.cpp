// Kernels of sampling from transformers against plain operations in fp64, on every device.

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/ops/transformer/cached_attention_inference.h"
#include "nsvq/ops/transformer/draw_tokens_inference.h"
#include "nsvq/ops/transformer/norms_inference.h"
#include "nsvq/ops/transformer/swiglu_inference.h"
#include "tests/seed_of.h"

namespace nsvq {
namespace {

using torch::Tensor;

constexpr double kHalfUlp = 0x1p-8;  // of bf16, with some for sums in fp32

Tensor normal_of(int64_t seed, at::IntArrayRef shape, c10::Device device,
                 at::ScalarType type = at::kBFloat16) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return normal_values(seed_of(seed), 0, count).view(shape).to(device, type);
}

/// Every number within `relative` of its own size and `absolute`.
void expect_close(const Tensor& actual, const Tensor& truth, double relative, double absolute,
                  const std::string& what) {
  ASSERT_EQ(actual.sizes(), truth.sizes()) << what;
  const auto bound = truth.abs() * relative + absolute;
  const auto excess = ((actual.to(at::kDouble) - truth).abs() / bound).max().item<double>();
  EXPECT_LE(excess, 1) << what;
}

struct AttentionCase {
  int64_t sequences, heads, width, place;
  HeadNorm norm = HeadNorm::none;
  bool turned = true;
};

std::string describe_case(const AttentionCase& one) {
  return c10::str(one.sequences, " x ", one.heads, " heads of ", one.width, " at ", one.place,
                  ", norm ", static_cast<int>(one.norm), one.turned ? ", turned" : "");
}

Tensor in_fp64(const Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; }

void expect_attention(const AttentionCase& one, c10::Device device) {
  SCOPED_TRACE(describe_case(one));
  constexpr int64_t positions = 264;
  const int64_t width = one.width, inner = one.heads * width;
  const auto qkv = normal_of(1, {one.sequences, 3 * inner}, device);
  const std::vector<int64_t> shape = {one.sequences, one.heads, positions, width};
  const auto keys = normal_of(2, shape, device), values = normal_of(3, shape, device);
  const auto place = at::full({1}, one.place, at::TensorOptions(device).dtype(at::kLong));
  Tensor rotation;
  if (one.turned) {
    const auto angles = normal_of(4, {1, width / 2}, device, at::kFloat);
    rotation = at::complex(angles.cos(), angles.sin());
  }
  HeadNorms norms{.kind = one.norm, .eps = 1e-6};
  if (one.norm != HeadNorm::none) {
    norms.query_weight = normal_of(5, {width}, device, at::kFloat);
    norms.key_weight = normal_of(6, {width}, device, at::kFloat);
  }
  if (one.norm == HeadNorm::layer) {
    norms.query_bias = normal_of(7, {width}, device, at::kFloat);
    norms.key_bias = normal_of(8, {width}, device, at::kFloat);
  }
  const auto old_keys = keys.clone(), old_values = values.clone();
  const auto true_keys = in_fp64(keys), true_values = in_fp64(values);
  const HeadNorms exact{norms.kind,
                        norms.eps,
                        in_fp64(norms.query_weight),
                        in_fp64(norms.query_bias),
                        in_fp64(norms.key_weight),
                        in_fp64(norms.key_bias)};
  const auto turns = rotation.defined() ? rotation.to(at::kComplexDouble) : rotation;
  cached_attention_reference(in_fp64(qkv), true_keys, true_values, place, turns, exact);
  const auto output = cached_attention_inference(qkv, keys, values, place, rotation, norms);

  EXPECT_TRUE(at::equal(values.to(at::kDouble), true_values));
  expect_close(keys, true_keys, kHalfUlp, 1e-5, "keys");
  const auto others = at::arange(positions, place.options()).ne(place);
  EXPECT_TRUE(at::equal(keys.index({at::indexing::Slice(), at::indexing::Slice(), others}),
                        old_keys.index({at::indexing::Slice(), at::indexing::Slice(), others})));
  const auto stored = keys.to(at::kDouble);
  const auto heads_of = [&](const Tensor& x) {
    return x.view({one.sequences, one.heads, 1, width});
  };
  // The query turned: what the reference makes of it as a key.
  const auto as_key = at::cat({in_fp64(qkv).narrow(1, 0, inner), in_fp64(qkv).narrow(1, 0, inner),
                               in_fp64(qkv).narrow(1, 2 * inner, inner)},
                              1);
  const auto scratch = stored.clone();
  const HeadNorms of_query{norms.kind,       norms.eps,          exact.query_weight,
                           exact.query_bias, exact.query_weight, exact.query_bias};
  cached_attention_reference(as_key, scratch, true_values, place, turns, of_query);
  const auto query = scratch.narrow(2, one.place, 1);
  const auto seen = stored.narrow(2, 0, one.place + 1);
  const auto shares =
      (at::matmul(query, seen.transpose(2, 3)) / std::sqrt(static_cast<double>(width))).softmax(-1);
  const auto truth = at::matmul(shares, true_values.narrow(2, 0, one.place + 1));
  expect_close(heads_of(output), truth, kHalfUlp, 2e-5, "mixture");
}

void expect_attentions_on(c10::Device device) {
  for (const int64_t width : {8, 24, 32, 48, 64, 96, 128}) {
    for (const int64_t place : {0, 1, 15, 33, 263}) {
      expect_attention({.sequences = 3, .heads = 5, .width = width, .place = place}, device);
    }
    expect_attention({2, 3, width, 40, HeadNorm::layer, /*turned=*/false}, device);
    expect_attention({2, 3, width, 40, HeadNorm::rms, /*turned=*/true}, device);
  }
  expect_attention({.sequences = 67, .heads = 12, .width = 64, .place = 200}, device);
}

struct NormCase {
  int64_t channels;
  bool layer, weighted, added, gated, shifted;
  bool each_token = false;
  at::ScalarType type = at::kBFloat16;  ///< of gate, shift and scale
};

void expect_norm(const NormCase& one, c10::Device device) {
  SCOPED_TRACE(c10::str("channels ", one.channels, one.layer ? " layer" : " rms",
                        one.weighted ? " weighted" : "", one.added ? " added" : "",
                        one.gated ? " gated" : "", one.shifted ? " shifted" : "",
                        one.each_token ? " each token" : ""));
  constexpr int64_t sequences = 3, tokens = 5;
  const auto x = normal_of(1, {sequences, tokens, one.channels}, device, at::kFloat);
  const auto parts =
      normal_of(2, {sequences, one.each_token ? tokens : 1, 6 * one.channels}, device, one.type)
          .chunk(6, -1);
  NormedBranch branch;
  if (one.added) branch.branch = normal_of(3, {sequences, tokens, one.channels}, device);
  if (one.gated) branch.gate = parts[2];
  if (one.shifted) {
    branch.shift = parts[3];
    branch.scale = parts[4];
  }
  RowNorm norm{.layer = one.layer, .eps = 1e-5};
  if (one.weighted) {
    norm.weight = normal_of(4, {one.channels}, device, at::kFloat);
    norm.bias = normal_of(5, {one.channels}, device, at::kFloat);
  }
  const auto [true_sum, truth] = residual_norm_reference(
      in_fp64(x),
      {in_fp64(branch.branch), in_fp64(branch.gate), in_fp64(branch.shift), in_fp64(branch.scale)},
      {one.layer, norm.eps, in_fp64(norm.weight), in_fp64(norm.bias)});
  const auto [sum, normed] = residual_norm_inference(x, branch, norm);
  EXPECT_EQ(normed.scalar_type(), at::kBFloat16);
  if (one.added) {
    EXPECT_EQ(sum.scalar_type(), at::kFloat);
    expect_close(sum, true_sum, 1e-6, 1e-6, "sum");
  } else {
    EXPECT_EQ(sum.numel(), 0);
  }
  expect_close(normed, truth, kHalfUlp, 1e-4, "norm");
}

void expect_norms_on(c10::Device device) {
  for (const int64_t channels : {8, 40, 256, 264, 768, 8192}) {
    for (const bool layer : {false, true}) {
      expect_norm({channels, layer, true, true, false, false}, device);
      expect_norm({channels, layer, false, true, true, true}, device);
      expect_norm({channels, layer, true, false, false, true, true}, device);
      expect_norm({channels, layer, true, true, true, true, true, at::kFloat}, device);
    }
  }
  for (const int64_t channels : {8, 40, 768}) {
    const auto qkv = normal_of(1, {3, 5, 3 * channels}, device);
    const auto truth = query_key_norm_reference(qkv.to(at::kDouble), 1e-5);
    query_key_norm_inference(qkv, 1e-5);
    expect_close(qkv, truth, kHalfUlp, 1e-6, c10::str("queries and keys of ", channels));
  }
  EXPECT_THROW(query_key_norm_inference(at::zeros({2, 20}, device), 1e-5), c10::Error);
}

void expect_swiglu_on(c10::Device device) {
  for (const auto& [rows, channels] : {std::pair<int64_t, int64_t>{1, 8}, {3, 40}, {65, 2048}}) {
    const auto both = normal_of(1, {rows, 1, 2 * channels}, device) * 4;
    const auto gate = both.narrow(-1, 0, channels), up = both.narrow(-1, channels, channels);
    const auto truth = swiglu_inference_reference(gate.to(at::kDouble), up.to(at::kDouble));
    for (const bool joint : {true, false}) {
      const auto ours =
          joint ? swiglu_inference(gate, up) : swiglu_inference(gate.contiguous(), up.contiguous());
      EXPECT_EQ(ours.scalar_type(), at::kBFloat16);
      expect_close(ours, truth, kHalfUlp, 1e-6, c10::str(rows, " x ", channels));
    }
  }
  EXPECT_EQ(swiglu_inference(normal_of(1, {0, 8}, device), normal_of(1, {0, 8}, device)).numel(),
            0);
}

void expect_draws_of_plain_operations_on(c10::Device device) {
  const auto number = [&](double value) {
    return at::full({1}, value, at::TensorOptions(device).dtype(at::kFloat));
  };
  for (const int64_t codes : {1, 7, 8, 2047, 2048, 2049, 16384, 16385}) {
    for (const int64_t rows : {1, 33}) {
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(c10::str(rows, " rows of ", codes, " codes, ", type));
        const auto logits = normal_of(codes, {2 * rows, codes}, device, type) * 3;
        const auto upper = logits.narrow(0, 0, rows);
        const auto seeds = (at::arange(rows, at::kLong) * 7919 - 3).to(device);
        CodeDraw how{.seeds = seeds};
        const auto expect_same = [&](const Tensor& given) {
          EXPECT_TRUE(
              at::equal(draw_tokens_inference(given, how), draw_tokens_reference(given, how)));
        };
        expect_same(upper);
        how.temperature = 0.7;
        expect_same(upper);
        how.weight = number(2.3);
        expect_same(logits);
        how.factor = number(1.7);
        how.wanted = at::arange(rows, seeds.options()).remainder(3).eq(0);
        expect_same(logits);
      }
    }
  }
  // Far apart, equal after the sum, not a number.
  auto odd = normal_of(1, {4, 5000}, device, at::kFloat);
  odd[0].fill_(3e9);
  odd[1][4321] = NAN;
  odd[1][4900] = NAN;
  odd[2].fill_(-INFINITY);
  odd[3] = odd[3] * 1e30;
  const CodeDraw how{.seeds = at::arange(4, at::kLong).to(device)};
  EXPECT_TRUE(at::equal(draw_tokens_inference(odd, how), draw_tokens_reference(odd, how)));
  EXPECT_EQ(draw_tokens_inference(odd, how)[1].item<int64_t>(), 4321);
}

TEST(TransformerInferenceCPU, CachedAttentionIsThePlainOne) { expect_attentions_on(at::kCPU); }
TEST(TransformerInferenceCPU, NormsAreThePlainOnes) { expect_norms_on(at::kCPU); }
TEST(TransformerInferenceCPU, SwigluIsThePlainOne) { expect_swiglu_on(at::kCPU); }

class TransformerInferenceCUDA : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  }
};

TEST_F(TransformerInferenceCUDA, CachedAttentionIsThePlainOne) { expect_attentions_on(at::kCUDA); }
TEST_F(TransformerInferenceCUDA, NormsAreThePlainOnes) { expect_norms_on(at::kCUDA); }
TEST_F(TransformerInferenceCUDA, SwigluIsThePlainOne) { expect_swiglu_on(at::kCUDA); }
TEST_F(TransformerInferenceCUDA, DrawsAreThoseOfPlainOperations) {
  expect_draws_of_plain_operations_on(at::kCUDA);
}

}  // namespace
}  // namespace nsvq
