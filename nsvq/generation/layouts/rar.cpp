// RAR's transformer (1d-tokenizer). Its tables of positions and steps have a first dimension of
// one, and the last norm is told the scale before the shift.
#include <array>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/generation/layouts/layout.h"

namespace nsvq {

namespace {

constexpr int64_t kRarSparePositions = 1024;  // rows of its tables of positions that it never uses
constexpr std::array<const char*, 3> kTables = {"pos_embed", "target_aware_pos_embed",
                                                "timesteps_embeddings"};
constexpr std::array<const char*, 2> kLastNorm = {"adaln_before_head.adaLN_modulation.1.weight",
                                                  "adaln_before_head.adaLN_modulation.1.bias"};

void swap_scale_and_shift(TensorMap& theirs) {
  for (const auto* name : kLastNorm) {
    const auto found = theirs.find(name);
    if (found == theirs.end() || found->second.dim() == 0) continue;
    const auto parts = found->second.chunk(2);
    if (parts.size() == 2) found->second = at::cat({parts[1], parts[0]});
  }
}

void take_batch_dimension(TensorMap& theirs, const std::string& from) {
  for (const auto* name : kTables) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) continue;
    if (found->second.dim() != 3 || found->second.size(0) != 1) {
      throw UserError("{}: the tensor {} is no table [1, positions, channels]", from, quote(name));
    }
    found->second = found->second.squeeze(0);
  }
  swap_scale_and_shift(theirs);
}

void give_batch_dimension(TensorMap& theirs) {
  for (const auto* name : kTables) theirs.at(name) = theirs.at(name).unsqueeze(0);
  swap_scale_and_shift(theirs);
}

GeneratorSizes rar_sizes(const TensorMap& ours, const std::string& from) {
  const auto size = [&](const char* name, int64_t axis) {
    return size_of_tensor(ours, name, axis, from);
  };
  const int64_t codes = size("lm_head.weight", 0);
  return {.width = size("embeddings.weight", 1),
          .hidden = size("layers.0.feed_forward.w1.weight", 0),
          .codes = codes,
          .classes = size("embeddings.weight", 0) - codes - 2,
          .positions = size("pos_embed.weight", 0) - kRarSparePositions};
}

SamplingConfig rar_sampling(int64_t width) {
  SamplingConfig sampling{.guidance_schedule = "power-cosine"};
  sampling.guidance = width <= 768 ? 16 : width <= 1024 ? 15.5 : width <= 1280 ? 6.9 : 8;
  sampling.guidance_power = width <= 768 ? 2.75 : width <= 1024 ? 2.5 : width <= 1280 ? 1.5 : 1.2;
  return sampling;
}

}  // namespace

std::vector<GeneratorLayout> rar_generators() {
  const std::string block = "blocks.#.", our_block = "layers.#.";
  return {{.program = "rar",
           .name = "RAR's generator",
           .family = "rar",
           .has = {"target_aware_pos_embed", "timesteps_embeddings", "blocks.0.attn.qkv."},
           .rules = {{"cls_token", "cls_token"},
                     {"embeddings.weight", "embeddings.weight"},
                     {"pos_embed", "pos_embed.weight"},
                     {"target_aware_pos_embed", "target_aware_pos_embed.weight"},
                     {"timesteps_embeddings", "timesteps_embeddings.weight"},
                     {"adaln_before_head.adaLN_modulation.1.*", "adaln_before_head.modulation.*"},
                     {"lm_head.*", "lm_head.*"},
                     {block + "adaLN_modulation.1.*", our_block + "modulation.*"},
                     {block + "norm1.*", our_block + "attention_norm.*"},
                     {block + "norm2.*", our_block + "ffn_norm.*"},
                     {block + "attn.qkv.*", our_block + "attention.wqkv.*"},
                     {block + "attn.proj.*", our_block + "attention.wo.*"},
                     {block + "attn.q_norm.*", our_block + "attention.q_norm.*"},
                     {block + "attn.k_norm.*", our_block + "attention.k_norm.*"},
                     {block + "mlp.fc1.*", our_block + "feed_forward.w1.*"},
                     {block + "mlp.fc2.*", our_block + "feed_forward.w2.*"}},
           .dropped = {"attn_mask"},
           .sizes = rar_sizes,
           .heads = [](int64_t /*width*/) { return int64_t{16}; },
           .sampling = rar_sampling,
           .to_our_sizes = take_batch_dimension,
           .to_their_sizes = give_batch_dimension,
           .why_not = [](const GeneratorConfig& /*config*/, const GridShape& grid) -> std::string {
             return grid.height == grid.width ? "" : "its grids are square";
           }}};
}

}  // namespace nsvq
