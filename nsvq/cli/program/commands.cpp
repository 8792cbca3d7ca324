#include <CLI/CLI.hpp>

#include "nsvq/cli/program/command.h"

namespace nsvq {

// The grammar: a verb takes the tokenizer or recipe it works on as its first word (MODEL, CONFIG);
// a noun takes a verb (images compare, tokens verify, weights get). One word for one thing in every
// command: --data images, --limit the first N of them, --out what is written, --force to replace
// files, --json the figures, --batch-size, --device, --gpus, --best, --metrics, --conventions,
// --count of images to sample, --seed. Settings are words key=value.
const std::vector<Command>& commands() {
  const std::string train = "Train", use = "Use a tokenizer", measure = "Measure",
                    show = "Show runs and files", machine = "This machine";
  static const std::vector<Command> table = {
      {"train", "train a tokenizer from a recipe", declare_train, train},
      {"config", "print a recipe with all its settings, or a reference of all keys", declare_config,
       train},
      {"diffusion", "train latent diffusion on a tokenizer, and sample images", declare_diffusion,
       train},
      {"generate", "train a generator on a tokenizer's tokens, and sample images", declare_generate,
       train},
      {"reproduce", "run an experiment (a table of the paper) and make a page of it",
       declare_reproduce, train},
      {"tokenize", "write the tokens of images to a folder of shards", declare_tokenize, use},
      {"detokenize", "decode tokens to images", declare_detokenize, use},
      {"tokens", "verify folders of tokens", declare_tokens, use},
      {"encode", "write the latents of images (the encoder's output) to shards", declare_encode,
       use},
      {"reconstruct", "reconstruct images", declare_reconstruct, use},
      {"codebook", "make a codebook by k-means of latents or features", declare_codebook, use},
      {"export", "write a model for PyTorch, other programs or a hub", declare_export, use},
      {"import", "make a model of another program's weights", declare_import, use},
      {"eval", "evaluate a tokenizer on images", declare_eval, measure},
      {"compare", "evaluate several tokenizers on the same images", declare_compare, measure},
      {"images", "compare two sets of images, statistics for FID, pipe: lists", declare_images,
       measure},
      {"bench", "measure speed and memory", declare_bench, measure},
      {"runs", "list the runs below a folder with their state and figures", declare_runs, show},
      {"info", "show what a run, a checkpoint, a model or tokens hold", declare_info, show},
      {"report", "make a page about one or several runs", declare_report, show},
      {"watch", "show the runs below a folder in a browser while they go on", declare_watch, show},
      {"weights", "fetch, import and list pretrained weights", declare_weights, machine},
      {"doctor", "show what this machine offers: GPU, weights, disk, threads", declare_doctor,
       machine},
      {"completion", "print a script that completes words in bash or zsh", declare_completion,
       machine},
  };
  return table;
}

void declare_commands(CLI::App& app, const std::vector<Command>& commands) {
  app.require_subcommand(1);
  for (const auto& command : commands) {
    auto& sub = *app.add_subcommand(command.name, command.summary);
    sub.group(command.group);
    command.declare(sub);
  }
}

}  // namespace nsvq
