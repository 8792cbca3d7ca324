#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/generation/config.h"
#include "nsvq/generation/tokens/token_codec.h"
#include "nsvq/train/labelled_batches.h"

namespace nsvq {

/// Tokens to learn, in memory or in files.
struct TokenSet {
  LabelledTensor images;  ///< data [n, h, w] int32, or [n, variants, h, w]
  int64_t codes = 0;      ///< that a token may be one of; 0: the file does not say
  /// In place of images.data: the parts of it in the files of a folder, where they stay.
  std::vector<torch::Tensor> shards = {};

  bool mapped() const { return !shards.empty(); }
  const torch::Tensor& part() const { return mapped() ? shards.front() : images.data; }
  int64_t height() const { return part().size(-2); }
  int64_t width() const { return part().size(-1); }
};

/// Where a TokenSet comes from.
struct TokenFiles {
  std::string key;      ///< the setting that names them, for messages
  std::string tokens;   ///< a folder of `nsvq tokenize`, or a .npy or .safetensors file
  std::string classes;  ///< of such a file; empty: a tensor "classes" beside its tokens, or none
  bool mapped = false;  ///< tokens of a folder stay in its files
};

/// What generator.tokens and generator.val_tokens name.
TokenFiles training_tokens(const GenerationConfig& config);
TokenFiles validation_tokens(const GenerationConfig& config);

/// Reads them. `codec` is the tokenizer, if there is one. A file of tokens [n, length] has the
/// tokenizer's square grid or, without one, grids of 1 x length. Throws UserError for a folder that
/// is incomplete, damaged or of another tokenizer, and for a file that holds something else.
TokenSet read_token_set(const TokenFiles& files, const TokenCodec* codec);

/// The grid that tokens have. Throws UserError where generator.codes contradicts them or the
/// tokenizer, or a token is out of range.
GridShape grid_of(const TokenSet& set, const GenerationConfig& config, const TokenFiles& files,
                  const TokenCodec* codec);
/// Throws UserError unless tokens fit a grid, with the names of where both come from.
void require_grid(const TokenSet& set, const GridShape& grid, const TokenFiles& files,
                  const std::string& grids_of);

/// One variant of each image's tokens [B, variants, h, w], drawn by the images' seeds [B]; tokens
/// [B, h, w] stay as they are.
torch::Tensor drawn_variant(const torch::Tensor& tokens, const torch::Tensor& seeds);

}  // namespace nsvq
