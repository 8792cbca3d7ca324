#include "nsvq/nn/network_form.h"

#include <array>

#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

constexpr std::array<NetworkForm, 5> kForms = {{
    {},
    // taming-transformers' VQGAN, and with it LlamaGen, IBQ, VAR, Chameleon, diffusers' VQModel.
    {.name = "taming",
     .biases = true,
     .halving = Halving::padded_after,
     .doubling = Doubling::nearest,
     .more_decoder_blocks = 1,
     .encoder_out_kernel = 3,
     .latent_convolutions = true},
    // MaskGIT's VQGAN, of which TiTok's repository has PyTorch weights.
    {.name = "maskgit",
     .shortcut_of_result = true,
     .halving = Halving::means,
     .doubling = Doubling::nearest,
     .middle_as_levels = true},
    // VQGAN+ and MaskBit's tokenizers, MaskGIT's with convolutions that halve.
    {.name = "maskbit",
     .shortcut_of_result = true,
     .halving = Halving::padded_after,
     .doubling = Doubling::nearest,
     .middle_as_levels = true},
    // Open-MAGVIT2; SimVQ has the same without adaptive norms, which is nsvq with two blocks.
    {.name = "magvit2", .middle_as_levels = true, .adaptive_norms = true},
}};

}  // namespace

const NetworkForm& network_form(const std::string& family) {
  return find_named(kForms, "family of networks", family, "model.family");
}

std::vector<std::string> network_families() { return names_of(kForms); }

}  // namespace nsvq
