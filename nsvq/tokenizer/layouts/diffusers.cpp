// diffusers' VQModel: taming's networks under other names, attention by linear layers.
#include <string>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

/// A rule for both networks.
void add_both(std::vector<NameRule>& rules, const std::string& theirs, const std::string& ours) {
  for (const std::string network : {"encoder.", "decoder."}) {
    rules.push_back({network + theirs, network + ours});
  }
}

/// Attention at `theirs`, with its present names first, then its older ones.
void add_attention(std::vector<NameRule>& rules, const std::string& theirs,
                   const std::string& ours) {
  rules.push_back({theirs + "group_norm.*", ours + "norm.*"});
  for (const auto& [there, here] :
       std::vector<std::pair<std::string, std::string>>{{"to_q.*", "q.*"},
                                                        {"to_k.*", "k.*"},
                                                        {"to_v.*", "v.*"},
                                                        {"to_out.0.*", "proj_out.*"},
                                                        {"query.*", "q.*"},
                                                        {"key.*", "k.*"},
                                                        {"value.*", "v.*"},
                                                        {"proj_attn.*", "proj_out.*"}}) {
    rules.push_back({theirs + there, ours + here, Form::linear_there});
  }
}

/// A level's residual blocks, whose shortcut has another name.
void add_blocks(std::vector<NameRule>& rules, const std::string& theirs, const std::string& ours) {
  rules.push_back({theirs + "conv_shortcut.*", ours + "nin_shortcut.*"});
  for (const std::string part : {"norm1.*", "conv1.*", "norm2.*", "conv2.*"}) {
    rules.push_back({theirs + part, ours + part});
  }
}

std::vector<NameRule> rules_of_diffusers() {
  std::vector<NameRule> rules;
  add_both(rules, "conv_in.*", "conv_in.*");
  add_both(rules, "conv_norm_out.*", "norm_out.*");
  add_both(rules, "conv_out.*", "conv_out.*");
  for (const std::string network : {"encoder.", "decoder."}) {
    add_blocks(rules, network + "mid_block.resnets.+.", network + "mid.block_+.");
    add_attention(rules, network + "mid_block.attentions.0.", network + "mid.attn_1.");
  }
  add_blocks(rules, "encoder.down_blocks.#.resnets.#.", "encoder.down.#.block.#.");
  add_attention(rules, "encoder.down_blocks.#.attentions.#.", "encoder.down.#.attn.#.");
  rules.push_back({"encoder.down_blocks.#.downsamplers.0.conv.*", "encoder.down.#.downsample.*"});
  // Block 0 has the lowest resolution.
  add_blocks(rules, "decoder.up_blocks.~.resnets.#.", "decoder.up.~.block.#.");
  add_attention(rules, "decoder.up_blocks.~.attentions.#.", "decoder.up.~.attn.#.");
  rules.push_back({"decoder.up_blocks.~.upsamplers.0.conv.*", "decoder.up.~.upsample.*"});
  rules.push_back({"quant_conv.*", "encoder.quant_conv.*"});
  rules.push_back({"post_quant_conv.*", "decoder.post_quant_conv.*"});
  rules.push_back({"quantize.embedding.weight", "quantizer.codebook"});
  return rules;
}

/// What config.json says and shapes do not.
void check_configuration(const std::filesystem::path& file) {
  const auto path = file.parent_path() / "config.json";
  if (!path_exists(path)) return;
  const auto json = read_json(path);
  const auto require = [&](const char* key, const nlohmann::json& wanted) {
    const auto found = json.find(key);
    if (!json.is_object() || found == json.end() || *found == wanted) return;
    throw UserError("{}: {} is {}, and nsvq has VQModel with {} alone", path.string(), key,
                    shown_json(*found), shown_json(wanted));
  };
  require("_class_name", "VQModel");
  require("act_fn", "silu");
  require("norm_type", "group");
  require("norm_num_groups", 32);
}

}  // namespace

std::vector<Layout> diffusers_layouts() {
  return {{.name = "diffusers' VQModel",
           .has = {{"encoder.down_blocks."}, {"quantize.embedding.weight"}},
           .rules = rules_of_diffusers(),
           .settings = {"model.family: taming", "quantizer.type: vq"},
           .check_beside = check_configuration}};
}

}  // namespace nsvq
