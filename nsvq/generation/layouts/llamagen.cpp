// LlamaGen's GPT, whose names are ours. Its positions turn queries and keys, and no tensor tells
// how many there are.
#include <algorithm>

#include "nsvq/generation/layouts/layout.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

namespace {

GeneratorSizes llamagen_sizes(const TensorMap& ours, const std::string& from) {
  const auto size = [&](const char* name, int64_t axis) {
    return size_of_tensor(ours, name, axis, from);
  };
  return {.width = size("tok_embeddings.weight", 1),
          .hidden = size("layers.0.feed_forward.w1.weight", 0),
          .codes = size("tok_embeddings.weight", 0),
          .classes = size("cls_embedding.embedding_table.weight", 0) - 1};
}

/// 64 channels each but in the model of 3 billion parameters.
int64_t llamagen_heads(int64_t width) {
  return width == 3200 ? 32 : std::max<int64_t>(width / 64, 1);
}

SamplingConfig llamagen_sampling(int64_t width) {
  return {.guidance = width <= 1024 ? 2.0 : width <= 1536 ? 1.75 : 1.65};
}

}  // namespace

std::vector<GeneratorLayout> llamagen_generators() {
  const std::string tokens = "tok_embeddings.", attention = "layers.0.attention.wqkv.";
  return {
      {.program = "",
       .name = "LlamaGen's generator of texts",
       .family = "ar",
       .has = {tokens, attention, "cls_embedding.cap_proj."},
       .refused = "it is told texts, where nsvq's generators are told classes"},
      {.program = "llamagen",
       .name = "LlamaGen's generator",
       .family = "ar",
       .has = {tokens, attention, "cls_embedding.embedding_table."},
       .rules = {{"tok_embeddings.weight", "tok_embeddings.weight"},
                 {"cls_embedding.embedding_table.weight", "cls_embedding.embedding_table.weight"},
                 {"layers.#.*", "layers.#.*"},
                 {"norm.weight", "norm.weight"},
                 {"output.weight", "output.weight"}},
       .dropped = {"freqs_cis", "causal_mask"},
       .sizes = llamagen_sizes,
       .heads = llamagen_heads,
       .sampling = llamagen_sampling,
       .why_not = why_not_square_and_gated}};
}

}  // namespace nsvq
