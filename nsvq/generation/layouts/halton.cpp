// Halton-MaskGIT's transformer. Queries, keys and values have a layer each; the weights of its head
// are those of its table of tokens, and stand in its files twice.
#include <algorithm>
#include <array>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/generation/layouts/layout.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

namespace {

constexpr auto kHead = "head.weight", kTokens = "tok_emb.weight";
constexpr std::array<std::string_view, 3> kParts = {"wq.weight", "wk.weight", "wv.weight"};
constexpr std::string_view kJoined = "wqkv.weight";

std::string with_ending(std::string name, std::string_view ending, std::string_view other) {
  return name.replace(name.size() - ending.size(), ending.size(), other);
}

void join_queries_keys_values(TensorMap& theirs, const std::string& from) {
  const auto head = theirs.find(kHead), tokens = theirs.find(kTokens);
  if (head != theirs.end()) {
    if (tokens == theirs.end() || !at::equal(head->second, tokens->second)) {
      throw UserError("{}: {} is not {}, as in a head that is tied to the table of tokens", from,
                      quote(kHead), quote(kTokens));
    }
    theirs.erase(head);
  }
  std::vector<std::string> queries;
  for (const auto& [name, tensor] : theirs) {
    if (name.ends_with(kParts[0])) queries.push_back(name);
  }
  for (const auto& name : queries) {
    std::vector<torch::Tensor> parts;
    for (const auto part : kParts) {
      const auto found = theirs.find(with_ending(name, kParts[0], part));
      if (found == theirs.end()) {
        throw UserError("{}: the tensor {} is missing", from,
                        quote(with_ending(name, kParts[0], part)));
      }
      if (found->second.dim() != 2) {
        throw UserError("{}: the tensor {} is not that of a linear layer", from,
                        quote(found->first));
      }
      if (!parts.empty() && found->second.sizes() != parts[0].sizes()) {
        throw UserError("{}: the tensor {} is not of the sizes of {}", from, quote(found->first),
                        quote(name));
      }
      parts.push_back(found->second);
    }
    theirs[with_ending(name, kParts[0], kJoined)] = at::cat(parts);
    for (const auto part : kParts) theirs.erase(with_ending(name, kParts[0], part));
  }
}

void divide_queries_keys_values(TensorMap& theirs) {
  TensorMap divided;
  for (const auto& [name, tensor] : theirs) {
    if (!name.ends_with(kJoined)) continue;
    const auto parts = tensor.chunk(std::ssize(kParts));
    for (size_t i = 0; i < kParts.size(); ++i) {
      divided[with_ending(name, kJoined, kParts[i])] = parts[i].contiguous();
    }
  }
  std::erase_if(theirs, [](const auto& row) { return row.first.ends_with(kJoined); });
  theirs.merge(divided);
  theirs[kHead] = theirs.at(kTokens).clone();
}

GeneratorSizes halton_sizes(const TensorMap& ours, const std::string& from) {
  const auto size = [&](const char* name, int64_t axis) {
    return size_of_tensor(ours, name, axis, from);
  };
  constexpr auto registers = "reg_tokens.weight";
  return {.width = size(kTokens, 1),
          .hidden = size("layers.0.feed_forward.w1.weight", 0),
          .codes = size(kTokens, 0) - 1,
          .classes = size("cls_emb.embedding_table.weight", 0) - 1,
          .positions = size("pos_emb.weight", 0),
          .registers = ours.contains(registers) ? size(registers, 0) : 0};
}

int64_t halton_heads(int64_t width) {
  if (width == 512) return 6;
  return width == 1152 ? 16 : std::max<int64_t>(width / 64, 1);
}

/// Its guidance is one less (c + w (c - u)).
SamplingConfig halton_sampling(int64_t width) {
  const double guidance = width <= 384 ? 2.5 : width <= 512 ? 2 : width <= 768 ? 1.7 : 1.5;
  return {.guidance = guidance, .redraw = true};
}

}  // namespace

std::vector<GeneratorLayout> halton_generators() {
  const std::string block = "transformer.layers.#.", our_block = "layers.#.";
  const std::vector<std::string> has = {"tok_emb.", "pos_emb.", "cls_emb.",
                                        "transformer.layers.0.ln1."};
  auto merging = has;
  merging.emplace_back("in_proj.");
  return {{.program = "",
           .name = "Halton-MaskGIT's generator of merged tokens",
           .family = "masked",
           .has = merging,
           .refused = "it merges four tokens into one, which nsvq's generators do not"},
          {.program = "halton",
           .name = "Halton-MaskGIT's generator",
           .family = "masked",
           .has = has,
           .rules = {{"tok_emb.weight", "tok_emb.weight"},
                     {"cls_emb.weight", "cls_emb.embedding_table.weight"},
                     {"pos_emb.weight", "pos_emb.weight"},
                     {"reg_tokens.weight", "reg_tokens.weight"},
                     {"head.bias", "output.bias"},
                     {"last_norm.norm_final.*", "last_norm.norm.*"},
                     {"last_norm.mlp.1.*", "last_norm.modulation.*"},
                     {block + "mlp.1.*", our_block + "modulation.*"},
                     {block + "ln1.weight", our_block + "attention_norm.weight"},
                     {block + "ln2.weight", our_block + "ffn_norm.weight"},
                     {block + "attn.*", our_block + "attention.*"},
                     {block + "ff.*", our_block + "feed_forward.*"}},
           .sizes = halton_sizes,
           .heads = halton_heads,
           .sampling = halton_sampling,
           .to_our_sizes = join_queries_keys_values,
           .to_their_sizes = divide_queries_keys_values,
           .why_not = why_not_square_and_gated}};
}

}  // namespace nsvq
