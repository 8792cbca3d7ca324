#include "nsvq/tokenizer/exchange/export_layout.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/tokenizer/exchange/their_weights.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// A program that has taming's networks, under some names.
struct Program {
  std::string name, layout;
  bool middle_attention;    ///< always has attention between the middle blocks
  bool last_level_attends;  ///< has attention at the last level, and at no other
  bool normalises;          ///< divides latents and codes by their norms
};

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      {"taming", "taming-transformers' VQGAN", true, false, false},
      {"llamagen", "LlamaGen's VQ", true, true, true},
      {"diffusers", "diffusers' VQModel", false, false, false}};
  return all;
}

/// Refuses networks that the program has not.
void check_networks(const LoadedModel& model, const Program& program) {
  const auto& network = model.config.model;
  const auto last = static_cast<int64_t>(network.multipliers.size()) - 1;
  const auto narrow = [&](int64_t multiplier) { return network.width * multiplier % 32 != 0; };
  std::string reason;
  if (network.family != "taming") {
    reason = fmt::format("model.family is {}", network.family);
  } else if (network.latent_kernel != 1) {
    reason = fmt::format("model.latent_kernel is {}", network.latent_kernel);
  } else if (network.haar != 0 || network.halving_levels() != last) {
    reason = fmt::format("model.haar is {} and model.halvings {}", network.haar, network.halvings);
  } else if (network.colors != "rgb" || network.range != "symmetric") {
    reason = fmt::format("model.colors is {} and model.range {}", network.colors, network.range);
  } else if (narrow(1) || std::ranges::any_of(network.multipliers, narrow)) {
    reason = "its channels do not make 32 groups (model.width)";
  } else if (program.middle_attention && !network.mid_attention) {
    reason = "model.mid_attention is false";
  } else if (program.last_level_attends && network.attention != std::vector<int64_t>{last}) {
    reason = fmt::format("model.attention is not [{}], the last level", last);
  }
  if (reason.empty()) return;
  throw UserError("{}: {}, and {} has no such network; it is not written as {}",
                  model.file.string(), reason, find_layout(program.layout).name, program.name);
}

/// The codes [K, d] as the program stores them.
torch::Tensor codes_for(const LoadedModel& model, const Program& program) {
  auto& quantizer = *model.tokenizer->quantizer;
  const auto& config = model.config.quantizer;
  const auto refuse = [&](const std::string& reason) {
    throw UserError("{}: {}; it is not written as {}", model.file.string(), reason, program.name);
  };
  if (program.normalises && !config.normalise) {
    refuse(find_layout(program.layout).name +
           " divides latents and codes by their norms, and this model does not "
           "(quantizer.normalise)");
  }
  const auto codes = quantizer.code_vectors();
  const bool nearest = codes.defined() && codes.size(1) == model.config.model.latent_dim &&
                       (config.normalise || quantizer.distance() == Distance::l2) &&
                       config.type != "var" && (config.type != "ibq" || program.name == "taming");
  const auto all = [&] { return at::arange(codes.size(0)).view({1, 1, -1}); };
  if (!nearest || !at::equal(quantizer.decode(all()).squeeze(0).squeeze(1).t(), codes)) {
    refuse(fmt::format("tokens of quantizer.type {} are not the nearest of a table of codes",
                       config.type));
  }
  if (config.type == "ibq") {
    log("the tokens of ibq are the largest dot products: SEED-Voken's IBQ reads this file, and "
        "taming-transformers would choose other codes");
  }
  // Codes of norm 1 are the nearest to a latent of any norm where they are to it divided by its
  // norm.
  return program.normalises && quantizer.codebook().defined() ? quantizer.codebook() : codes;
}

Json configuration(const LoadedModel& model, int64_t codes) {
  const auto& network = model.config.model;
  auto widths = Json::array(), down = Json::array(), up = Json::array();
  for (size_t level = 0; level < network.multipliers.size(); ++level) {
    const bool attends = std::ranges::find(network.attention, static_cast<int64_t>(level)) !=
                         network.attention.end();
    widths.push_back(network.width * network.multipliers[level]);
    down.push_back(attends ? "AttnDownEncoderBlock2D" : "DownEncoderBlock2D");
    up.insert(up.begin(), Json(attends ? "AttnUpDecoderBlock2D" : "UpDecoderBlock2D"));
  }
  return {{"_class_name", "VQModel"},
          {"act_fn", "silu"},
          {"block_out_channels", widths},
          {"down_block_types", down},
          {"in_channels", 3},
          {"latent_channels", network.inner_channels()},
          {"layers_per_block", network.blocks},
          {"lookup_from_codebook", true},
          {"mid_block_add_attention", network.mid_attention},
          {"norm_num_groups", 32},
          {"norm_type", "group"},
          {"num_vq_embeddings", codes},
          {"out_channels", 3},
          {"sample_size", model.config.data.size},
          {"up_block_types", up},
          {"vq_embed_dim", network.latent_dim}};
}

}  // namespace

std::vector<std::string> layouts_to_write() { return names_of(programs()); }

TensorMap with_their_names(const LoadedModel& model, const std::string& program_name) {
  const auto& program = find_named(programs(), "layout", program_name, "--as");
  check_networks(model, program);
  const torch::NoGradGuard no_grad;
  const bool drawn = program.name == "taming" && model.config.quantizer.type == "gumbel";
  auto tensors = named_tensors(*model.tokenizer);
  if (!drawn) {
    std::erase_if(tensors, [](const auto& row) { return row.first.starts_with("quantizer."); });
    tensors["quantizer.codebook"] = codes_for(model, program);
  }
  const auto& layout =
      find_layout(drawn ? "taming-transformers' VQGAN with Gumbel codes" : program.layout);
  const Renaming to_theirs(layout.rules, Side::ours, names_in(shapes_of(tensors)));
  TensorMap theirs;
  for (const auto& [name, tensor] : tensors) {
    const auto there = to_theirs(name);
    if (!there) {
      throw UserError("{}: {} has no name for the tensor {}", model.file.string(), layout.name,
                      quote(name));
    }
    const auto sizes = sizes_on(Side::theirs, there->form, tensor.sizes().vec());
    theirs[there->name] = tensor.detach().reshape(sizes);
  }
  // Its program loads no file without them: the indices of the last batches that it trained on.
  if (program.name == "llamagen") theirs["quantize.codebook_used"] = at::zeros({65536});
  return theirs;
}

std::vector<fs::path> files_in_layout(const std::string& program, const fs::path& out) {
  if (program == "diffusers") {
    return {out / "diffusion_pytorch_model.safetensors", out / "config.json"};
  }
  if (out.extension() != ".safetensors") {
    throw UserError("--out: {} does not end in .safetensors", out.string());
  }
  return {out};
}

void write_in_layout(const LoadedModel& model, const std::string& program, const fs::path& out) {
  const auto files = files_in_layout(program, out);
  const auto tensors = with_their_names(model, program);
  write_safetensors(files[0], {tensors, {{"format", "pt"}}});
  if (files.size() == 1) return;
  const int64_t codes = tensors.at("quantize.embedding.weight").size(0);
  write_text(files[1], configuration(model, codes).dump(2) + "\n");
}

}  // namespace nsvq
