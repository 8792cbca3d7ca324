#include "nsvq/cli/diffusion/diffusion.h"

#include "nsvq/cli/program/command.h"

namespace nsvq {

void declare_diffusion(CLI::App& app) {
  declare_commands(
      app,
      {{"train", "train a latent diffusion model on a tokenizer's latents",
        declare_diffusion_train},
       {"sample", "sample images from a trained model", declare_diffusion_sample},
       {"eval", "compare samples of a model with images, as sets (FID)", declare_diffusion_eval},
       {"export", "write a model and its tokenizer to one folder, for PyTorch",
        declare_diffusion_export},
       {"config", "print a recipe with all its settings, or a reference of all keys",
        declare_diffusion_config}});
}

}  // namespace nsvq
