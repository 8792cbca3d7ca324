#include "nsvq/report/curve_table.h"

namespace nsvq {
namespace {

CurveTopic quality() {
  return {
      "Quality",
      {
          {"PSNR", "dB", {{"eval", "psnr", "mean of images"}, {"eval", "psnr_pooled", "pooled"}}},
          {"SSIM", "", {{"eval", "ssim", "SSIM"}}},
          {"LPIPS", "", {{"eval", "lpips", "LPIPS"}}},
          {"rFID", "", {{"eval", "rfid", "rFID"}}},
      }};
}

CurveTopic codebook() {
  return {"Codebook",
          {
              {"Codebook utilisation",
               "share of codes",
               {{"epoch", "utilisation", "training epoch"}, {"eval", "utilisation", "validation"}}},
              {"Codebook perplexity",
               "codes",
               {{"epoch", "perplexity", "training epoch"}, {"eval", "perplexity", "validation"}}},
              {"Effective neighbours of a latent",
               "codes",
               {{"drift", "neighbours", "neighbours"}},
               true},
              {"Codes replaced", "codes per epoch", {{"epoch", "replaced", "replaced"}}},
          }};
}

CurveTopic drift() {
  return {"Encoder drift",
          {
              {"Encoder drift since the last measurement",
               "RMS per element",
               {{"drift", "drift", "drift"}}},
              {"Assignment churn", "share of latents", {{"drift", "churn", "churn"}}},
              {"Quantization error",
               "RMS per element",
               {{"drift", "quantization_error", "quantization error"}}},
              {"Norm of the latents", "mean L2 norm", {{"drift", "latent_norm", "norm"}}},
          }};
}

CurveTopic losses() {
  return {"Losses",
          {
              {"Loss and reconstruction terms",
               "loss",
               {{"step", "loss", "total"},
                {"step", "l1", "L1"},
                {"step", "l2", "L2"},
                {"step", "chroma", "chroma"},
                {"step", "perceptual", "perceptual"},
                {"epoch", "loss", "total, epoch mean"}},
               true},
              {"Quantizer terms",
               "loss",
               {{"step", "vq", "vq"},
                {"step", "commitment", "commitment"},
                {"step", "embedding", "embedding"},
                {"step", "ns", "non-stationary"}},
               true},
              {"Commitment, epoch mean", "loss", {{"epoch", "commitment", "commitment"}}},
          }};
}

CurveTopic adversary() {
  return {"Adversary",
          {
              {"Adversarial terms",
               "loss",
               {{"step", "generator", "generator"},
                {"step", "discriminator", "discriminator"},
                {"step", "lecam", "LeCAM"}},
               true},
              {"Logits of the discriminator",
               "mean logit",
               {{"step", "logits_real", "images"}, {"step", "logits_fake", "reconstructions"}}},
              {"Weight of the adversarial loss",
               "weight",
               {{"step", "adversarial_weight", "weight"}},
               true},
          }};
}

CurveTopic resources() {
  return {"Gradients and speed",
          {
              {"Gradient norms",
               "L2 norm",
               {{"step", "gradient_norm_encoder", "encoder"},
                {"step", "gradient_norm_decoder", "decoder"},
                {"step", "gradient_norm_quantizer", "quantizer"},
                {"step", "gradient_norm_discriminator", "discriminator"}},
               true},
              {"Steps skipped as not finite", "steps", {{"epoch", "skipped", "skipped"}}, true},
              {"Speed", "images per second", {{"step", "images_per_second", "images per second"}}},
              {"Peak memory", "GiB", {{"step", "peak_memory_gib", "peak memory"}}, true},
          }};
}

}  // namespace

const std::vector<CurveTopic>& known_curves() {
  static const std::vector<CurveTopic> topics = {quality(), codebook(),  drift(),
                                                 losses(),  adversary(), resources()};
  return topics;
}

}  // namespace nsvq
