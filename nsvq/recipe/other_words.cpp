#include "nsvq/recipe/other_words.h"

namespace nsvq {

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
