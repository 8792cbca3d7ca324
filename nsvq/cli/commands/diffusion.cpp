#include "nsvq/cli/commands/diffusion.h"

#include <CLI/CLI.hpp>

#include "nsvq/cli/program/command.h"

namespace nsvq {

void declare_diffusion(CLI::App& app) {
  app.require_subcommand(1);
  declare_diffusion_train(
      *app.add_subcommand("train", "train a latent diffusion model on a tokenizer's latents"));
  declare_diffusion_sample(*app.add_subcommand("sample", "sample images from a trained model"));
  declare_diffusion_eval(
      *app.add_subcommand("eval", "compare samples of a model with images, as sets (FID)"));
  declare_diffusion_export(
      *app.add_subcommand("export", "write a model and its tokenizer to one folder, for PyTorch"));
  declare_diffusion_config(*app.add_subcommand(
      "config", "print a recipe with all its settings, or a reference of all keys"));
}

}  // namespace nsvq
