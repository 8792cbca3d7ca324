#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "nsvq/generation/generator.h"
#include "nsvq/nn/linear_cross_entropy.h"

namespace torch::nn {
class EmbeddingImpl;
}

namespace nsvq {

/// How tokens are drawn from a network's output.
struct TokenDraw {
  torch::Tensor seeds;   ///< [N] int64
  torch::Tensor weight;  ///< of guidance, one number; undefined without
  torch::Tensor factor;  ///< one number by which logits are multiplied; undefined without
  const SamplingConfig& sampling;
  bool with_chances = false;
  torch::Tensor wanted = {};  ///< [N] bool: others may get any token; undefined: all are wanted
};

struct DrawnTokens {
  torch::Tensor tokens;   ///< [N] int64
  torch::Tensor chances;  ///< [N]: log p of the tokens before top_k and top_p, if asked for
};

/// From a network's output to tokens.
class TokenHead : public torch::nn::Module {
 public:
  /// Hidden states [N, width]: -log p of tokens [N], in fp32 at least.
  virtual torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& tokens,
                               RowGradients rows = RowGradients::any) = 0;
  /// Hidden states [N, width]; with guidance [2N, width], the upper half with the class.
  virtual DrawnTokens draw(const torch::Tensor& hidden, const TokenDraw& how) = 0;
  /// Casts large weights of its own products for good (cast_for_sampling).
  virtual void cast_products(at::ScalarType /*type*/) {}
};

/// Vectors [..., width] of tokens [...].
class TokenTable : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& tokens) = 0;
};

/// A vector for each code: `weight` [rows, width], normal of deviation 0.02.
std::shared_ptr<TokenTable> make_full_table(int64_t rows, int64_t width);

/// What a head with a logit for each code is made for.
struct TokenHeadShape {
  int64_t width;
  int64_t codes;
  int64_t outputs;  ///< `codes`, or more where others are learned that are never drawn
  bool bias = false;
  torch::Tensor tied =
      {};  ///< [outputs, width]: the weights, of a table that is registered elsewhere
};

/// A head with a logit for each code. Its own weights are zeros.
std::shared_ptr<TokenHead> make_full_head(const TokenHeadShape& shape);

/// How codes are split in two parts: code = first * second_codes + second.
struct CodeSplit {
  /// For so many codes: the second part has two thirds of the bits.
  explicit CodeSplit(int64_t of_codes);

  int64_t codes, first_codes, second_codes;
};

/// For many codes: the sum of a vector of the first part and one of the second. Tokens from `codes`
/// on, `extra` of them, have a vector of their own.
std::shared_ptr<TokenTable> make_factorised_table(int64_t codes, int64_t extra, int64_t width);

/// For many codes, as Open-MAGVIT2: the first part of a code from the hidden state, then the second
/// from both, by a transformer of `depth` blocks on these two places. top_k and top_p hold for each
/// part.
std::shared_ptr<TokenHead> make_factorised_head(int64_t codes, int64_t width, int64_t heads,
                                                int64_t depth);

/// For any number of codes: a vector of each bit of a code, added or taken away. Tokens from
/// `codes` on, `extra` of them, have a vector of their own.
std::shared_ptr<TokenTable> make_bits_table(int64_t codes, int64_t extra, int64_t width);

/// For any number of codes: the bits of a code, the lowest first, each by the hidden state and the
/// bits before it. top_k and top_p are not looked at.
std::shared_ptr<TokenHead> make_bits_head(int64_t codes, int64_t width);

/// The table and the head that generator.head names.
std::shared_ptr<TokenTable> make_token_table(const GeneratorConfig& config, int64_t codes,
                                             int64_t extra);
std::shared_ptr<TokenHead> make_token_head(const GeneratorConfig& config, int64_t codes);

/// A table of the classes, and of none: the last row, which stands for a label that is not told.
struct ClassTableImpl : torch::nn::Module {
  ClassTableImpl(int64_t classes, int64_t width);
  torch::Tensor forward(const torch::Tensor& labels);

 private:
  std::shared_ptr<torch::nn::EmbeddingImpl> table_;
};

/// Independent draws from an image's seed.
enum TokenImageDraw : int64_t {
  kLabelDraw,
  kMaskShareDraw,
  kMaskDraw,
  kOrderChoiceDraw,
  kOrderDraw
};

/// A number of [0, 1) for each seed [B].
torch::Tensor one_uniform_each(const torch::Tensor& seeds, TokenImageDraw draw);

/// Labels [B] of a batch; `classes`, which stands for none, where there are none, and for a share
/// of `dropout`.
torch::Tensor shown_labels(const TokenImages& images, int64_t classes, double dropout);

/// Labels [B] to sample by; with guidance [2B], the lower half none.
torch::Tensor sampled_labels(const TokenRequest& request, int64_t classes, bool guidance);

}  // namespace nsvq
