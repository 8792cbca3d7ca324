#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class LinearImpl;
}  // namespace torch::nn

namespace nsvq {

enum class NormKind { rms, layer };

/// Tokens between two parts of a transformer.
struct TokenResidual {
  torch::Tensor x;            ///< [B, T, width]
  torch::Tensor branch = {};  ///< what is still to be added to x, if it is defined
  double dropout = 0;         ///< the share of the branch that is set to zero first

  /// x with the branch, by torch's generator.
  torch::Tensor settle();
};

/// A norm over the last dimension, computed in fp32 at least.
struct TokenNormImpl : torch::nn::Module {
  struct Shape {
    int64_t width;
    NormKind kind = NormKind::rms;
    double eps = 1e-5;
    bool weight = true, bias = false;
  };
  explicit TokenNormImpl(const Shape& shape);
  /// In the type of x.
  torch::Tensor forward(const torch::Tensor& x);
  /// Settles the stream first. While gradients are recorded on a GPU under autocast to bf16, both
  /// in one pass where its kernel fits (nsvq/ops/transformer/add_rms_norm.h), and the norm is bf16.
  torch::Tensor forward(TokenResidual& stream);
  const Shape& shape() const { return shape_; }

  torch::Tensor weight, bias;  ///< undefined without

 private:
  std::string reason_against_one_pass(const TokenResidual& stream) const;

  Shape shape_;
};

/// Norms of queries and keys: none; RMS over all heads together, without weights; or the blocks'
/// norm over each head, with weights.
enum class QueryNorm { none, width, head };

/// Shares of values that training sets to zero: shares of the attention, what its projection adds,
/// values inside the MLP, and what the MLP adds.
struct BlockDropout {
  double attention = 0, projection = 0, hidden = 0, output = 0;
};

struct TransformerOptions {
  int64_t width, depth, heads;
  int64_t hidden;  ///< channels inside an MLP
  NormKind norm = NormKind::rms;
  double eps = 1e-5;
  QueryNorm query_norm = QueryNorm::none;
  bool gated = true;       ///< SwiGLU; else GELU
  bool bias = false;       ///< of linear layers and layer norms
  bool modulated = false;  ///< adaptive norms by a condition, whose gates start at zero
  /// One layer makes the modulations of all blocks, to which each adds an offset of its own.
  bool shared_modulation = false;
  bool causal = false;
  BlockDropout dropout = {};

  /// Channels beyond heads * head_width() are unused.
  int64_t head_width() const { return width / heads; }
};

/// Keys and values of tokens that were seen, so that a causal transformer goes on from them.
struct KvCache {
  explicit KvCache(int64_t most) : positions((most + 7) / 8 * 8) {}

  int64_t positions;                        ///< a multiple of 8, as fused attention likes masks
  std::vector<torch::Tensor> keys, values;  ///< of each layer [B, heads, positions, head width]
};

/// What a transformer is told about its tokens.
struct TokenContext {
  torch::Tensor rotation = {};   ///< [T, head width / 2] complex, of rotary positions; or undefined
  torch::Tensor condition = {};  ///< [B, 1 or T, width] of adaptive norms, after SiLU; or undefined
  torch::Tensor modulation = {};  ///< what the blocks' shared layer makes of it; set by Transformer
  KvCache* cache = nullptr;       ///< tokens follow those in it
  torch::Tensor places = {};      ///< [T] int64, with a cache: the places of the tokens in it
  bool training = false;          ///< dropout is on, by torch's generator
  bool fused = false;             ///< the kernels of sampling are used; set by Transformer
  bool one_query = false;         ///< so is that of a single token with a cache; set by Transformer
};

/// Self-attention with several heads.
struct TokenAttentionImpl : torch::nn::Module {
  explicit TokenAttentionImpl(const TransformerOptions& options);
  /// `mask` [T, positions of the cache]: with a cache, what is added to the scores.
  torch::Tensor forward(const torch::Tensor& x, const TokenContext& context, size_t layer,
                        const torch::Tensor& mask);

 private:
  torch::Tensor normalised(const torch::Tensor& x, TokenNormImpl* norm) const;
  torch::Tensor mixed_in_place(const torch::Tensor& parts, const TokenContext& context) const;
  std::string reason_against_turning(const torch::Tensor& parts, const TokenContext& context) const;
  torch::Tensor of_one_query(const torch::Tensor& projected, const TokenContext& context,
                             size_t layer) const;

  TransformerOptions options_;
  std::shared_ptr<torch::nn::LinearImpl> wqkv_, wo_;
  std::shared_ptr<TokenNormImpl> q_norm_, k_norm_;  ///< null without weights
};

/// w2(silu(w1 x) * w3 x), or w2(gelu(w1 x)).
struct TokenMlpImpl : torch::nn::Module {
  explicit TokenMlpImpl(const TransformerOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const TokenContext& context);
  /// Puts the weights of w1 and w3 into one memory, so that sampling takes them in one product.
  /// They do not train afterwards and stay on their device.
  void join_products();

 private:
  std::string reason_against_fused(const torch::Tensor& x, bool training) const;
  torch::Tensor gated(const torch::Tensor& x, const TokenContext& context);

  double hidden_dropout_;
  std::shared_ptr<torch::nn::LinearImpl> w1_, w2_, w3_;
  torch::Tensor joined_, joined_bias_;  ///< of w1, then w3; undefined before join_products
};

/// Shift, scale and gate of an adaptive norm, each [B, 1 or T, width].
struct Modulation {
  torch::Tensor shift, scale, gate;
};

class SampledTokens;

/// A pre-norm block: attention, then an MLP, each added to its input.
struct TokenBlockImpl : torch::nn::Module {
  explicit TokenBlockImpl(const TransformerOptions& options);
  void forward(TokenResidual& stream, const TokenContext& context, size_t layer,
               const torch::Tensor& mask);
  /// forward, in sampling.
  void forward_fused(SampledTokens& tokens, const TokenContext& context, size_t layer,
                     const torch::Tensor& mask);

 private:
  /// The modulations of both norms; undefined where blocks have none.
  std::array<Modulation, 2> modulations(const TokenContext& context) const;

  BlockDropout dropout_;
  std::shared_ptr<TokenAttentionImpl> attention_;
  std::shared_ptr<TokenMlpImpl> feed_forward_;
  std::shared_ptr<TokenNormImpl> attention_norm_, ffn_norm_;
  std::shared_ptr<torch::nn::LinearImpl> modulation_;  ///< null where blocks have none of their own
  torch::Tensor offset_;                               ///< [6 width] on the shared one
};

/// An adaptive norm after the last block.
struct ModulatedNormImpl : torch::nn::Module {
  explicit ModulatedNormImpl(const TokenNormImpl::Shape& shape);
  /// `condition` [B, 1 or T, width], after SiLU.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& condition);
  Modulation modulation_by(const torch::Tensor& condition) const;

  std::shared_ptr<torch::nn::LinearImpl> modulation;  ///< to shift and scale; starts at zero
  std::shared_ptr<TokenNormImpl> norm;
};

/// The blocks of a transformer on tokens [B, T, width], causal or bidirectional. Its modules are
/// those of `owner`: layers.N.attention.{wqkv,wo}, layers.N.feed_forward.{w1,w2,w3},
/// layers.N.{attention_norm,ffn_norm,modulation}; with a shared modulation `modulation` and
/// layers.N.modulation_offset.
class Transformer {
 public:
  Transformer(torch::nn::Module& owner, const TransformerOptions& options);

  /// [B, T, width]. Runs without a host synchronisation. Throws if a cache is given and the blocks
  /// are not causal.
  torch::Tensor forward(const torch::Tensor& x, const TokenContext& context);
  /// forward, of which the last sum is left to the norm that follows.
  TokenResidual stream(const torch::Tensor& x, const TokenContext& context);

  /// The norm of forward's result, modulated, for sampling: in bf16 with kernels of its own where
  /// they take the tokens (SampledTokens), whose results differ from forward's by rounding.
  torch::Tensor sampled(const torch::Tensor& x, const TokenContext& context, TokenNormImpl& norm,
                        const Modulation& by = {});

  const TransformerOptions& options() const { return options_; }

 private:
  /// Checks the tokens, and fills in what follows from the rest.
  TokenContext prepared(const torch::Tensor& x, TokenContext context) const;

  TransformerOptions options_;
  std::vector<std::shared_ptr<TokenBlockImpl>> layers_;
  std::shared_ptr<torch::nn::LinearImpl> modulation_;  ///< null where it is not shared
};

/// Rotations of a grid's positions, row by row, as complex numbers [height * width, head_width /
/// 2]: the first half of the pairs turns by the row, the second by the column, at frequencies from
/// 1 down towards 1e-4. The head's width is a multiple of 4.
torch::Tensor grid_rotation(int64_t height, int64_t width, int64_t head_width,
                            const torch::TensorOptions& options);

/// x [B, T, ..., head width], whose neighbouring channels are turned as pairs by `rotation`
/// [T, head width / 2] complex.
torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& rotation);

/// 2/3 of 4 times the width, rounded up to a multiple of 256: SwiGLU's usual hidden width.
int64_t gated_hidden_width(int64_t width);

/// Fills the weights of linear layers and embeddings below `module`, and sets biases to 0: normal
/// of deviation 0.02, or Xavier-uniform, in which queries, keys and values count as layers of their
/// own and embeddings are normal. Modulations stay as they are.
enum class WeightFill { normal, xavier };
void fill_token_weights(torch::nn::Module& module, WeightFill fill);

}  // namespace nsvq
