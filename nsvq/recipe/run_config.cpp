#include "nsvq/recipe/run_config.h"

#include <filesystem>

#include "nsvq/core/device.h"

namespace nsvq {

std::vector<Option> run_options(RunConfig& run) {
  return {
      {"seed", &run.seed, "seed of everything random in a run", Range::at_least(0)},
      {"device", &run.device, "where to compute; auto: the GPU if there is one",
       Range::one_of({"auto", "cpu", "cuda"}, {{"gpu", "cuda"}, {"cuda:0", "cuda"}}), kNotOnResult},
      {"threads", &run.threads,
       "CPU threads for computing; 0: OMP_NUM_THREADS or, where it is not set, all cores",
       Range::between(0, kMostThreads), kNotOnResult},
  };
}

void change_paths(const OptionTable& table,
                  const std::function<std::string(const std::string&)>& change) {
  for (const auto& row : table.rows) {
    if (const auto* sources = std::get_if<Sources*>(&row.field)) {
      for (auto& item : (*sources)->items) item = change_source(item, change);
    } else if (row.range.path) {
      auto& path = *std::get<std::string*>(row.field);
      if (!path.empty()) path = change(path);
    }
  }
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

bool equal_training_files(const OptionTable& here, const OptionTable& there) {
  for (size_t i = 0; i < here.rows.size(); ++i) {
    const auto& row = here.rows[i];
    const bool files = row.range.path || std::holds_alternative<Sources*>(row.field);
    // data.val is not trained on, and checkpoints hold the features.
    const bool trains = row.key != "data.val" && row.key != "quantizer.features.file";
    if (!files || !trains) continue;
    if (row.value() != there.rows.at(i).value()) return false;
  }
  return true;
}

const std::map<std::string, std::string>& words_of_other_programs() {
  static const std::map<std::string, std::string> words = {
      // data
      {"data", "data.train"},
      {"dataset", "data.train"},
      {"image_size", "data.size"},
      {"img_size", "data.size"},
      {"num_workers", "data.threads"},
      {"resolution", "data.size"},
      {"train.data", "data.train"},
      {"train_data", "data.train"},
      {"val_data", "data.val"},
      {"workers", "data.threads"},
      // model and quantizer
      {"beta_commit", "quantizer.beta"},
      {"channels", "model.width"},
      {"codebook_dim", "model.latent_dim"},
      {"codebook_size", "quantizer.codes"},
      {"commitment_cost", "quantizer.beta"},
      {"commitment_weight", "quantizer.beta"},
      {"dim", "model.latent_dim"},
      {"embed_dim", "model.latent_dim"},
      {"embedding_dim", "model.latent_dim"},
      {"n_e", "quantizer.codes"},
      {"n_embed", "quantizer.codes"},
      {"num_codes", "quantizer.codes"},
      {"num_embeddings", "quantizer.codes"},
      {"vocab_size", "quantizer.codes"},
      // losses
      {"disc_weight", "adversarial.weight"},
      {"gan_weight", "adversarial.weight"},
      {"lpips", "loss.perceptual"},
      {"lpips_weight", "loss.perceptual"},
      {"perceptual_weight", "loss.perceptual"},
      // training
      {"accumulate_grad_batches", "train.accumulate"},
      {"amp", "train.precision"},
      {"batch", "train.batch_size"},
      {"batch_size", "train.batch_size"},
      {"bs", "train.batch_size"},
      {"dtype", "train.precision"},
      {"epochs", "train.epochs"},
      {"gradient_accumulation_steps", "train.accumulate"},
      {"iterations", "train.steps"},
      {"max_epochs", "train.epochs"},
      {"max_steps", "train.steps"},
      {"mixed_precision", "train.precision"},
      {"num_epochs", "train.epochs"},
      {"resume_from", "train.init_from"},
      {"steps", "train.steps"},
      {"train.device", "device"},
      // optimizer
      {"clip_grad_norm", "optimizer.clip_norm"},
      {"ema", "optimizer.ema_decay"},
      {"grad_clip", "optimizer.clip_norm"},
      {"gradient_clip_val", "optimizer.clip_norm"},
      {"learning_rate", "optimizer.lr"},
      {"lr", "optimizer.lr"},
      {"max_grad_norm", "optimizer.clip_norm"},
      {"warmup_steps", "optimizer.schedule.warmup_steps"},
      {"wd", "optimizer.weight_decay"},
      {"weight_decay", "optimizer.weight_decay"},
  };
  return words;
}

}  // namespace nsvq
