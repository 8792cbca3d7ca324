#include "nsvq/report/curves.h"

#include <algorithm>

#include "nsvq/metrics/metric.h"

namespace nsvq {
namespace {

/// Adds lines to the chart that a metric names.
void add_lines(CurveTopic& topic, const MetricDisplay& display,
               const std::vector<CurveLine>& lines) {
  auto& curves = topic.curves;
  auto curve = std::find_if(curves.begin(), curves.end(),
                            [&](const Curve& one) { return one.title == display.chart; });
  if (curve == curves.end()) curve = curves.insert(curve, {display.chart, display.axis, {}});
  curve->lines.insert(curve->lines.end(), lines.begin(), lines.end());
}

/// Metrics of images, by their names and by those that earlier logs may have.
CurveTopic quality() {
  CurveTopic topic{"Quality", {}};
  for (const auto& kind : metric_kinds()) {
    if (kind.input == MetricInput::tokens) continue;
    add_lines(topic, kind.display, {{"eval", kind.name, kind.display.title}});
    for (const auto& name : kind.other_names) {
      add_lines(topic, kind.display, {{"eval", name, kind.display.title}});
    }
  }
  return topic;
}

/// Metrics of tokens, over an epoch's training images and in evaluations.
CurveTopic codebook() {
  CurveTopic topic{"Codebook", {}};
  for (const auto& kind : metric_kinds()) {
    if (kind.input != MetricInput::tokens) continue;
    add_lines(topic, kind.display,
              {{"epoch", kind.name, "training epoch"}, {"eval", kind.name, "validation"}});
  }
  topic.curves.push_back(
      {"Effective neighbours of a latent", "codes", {{"drift", "neighbours", "neighbours"}}, true});
  topic.curves.push_back(
      {"Codes replaced", "codes per epoch", {{"epoch", "replaced", "replaced"}}});
  return topic;
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
               {{"drift", "quantization_error", "quantization error"},
                {"drift", "centroid_distance", "of codes to their latents' mean"}}},
              {"Quantization error and drift, relative to the latents",
               "share of the latents' RMS",
               {{"drift", "relative_quantization_error", "quantization error"},
                {"drift", "relative_drift", "drift"}}},
              {"Directions in which vectors vary",
               "participation ratio",
               {{"drift", "latents_participation", "latents"},
                {"drift", "codes_participation", "codes"}}},
              {"Straight-through gap",
               "relative gradient difference, cosine",
               {{"drift", "ste_gap", "gap"}, {"drift", "ste_cosine", "cosine"}}},
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
                {"step", "logits", "logits"},
                {"epoch", "loss", "total, epoch mean"},
                {"eval", "loss", "validation"}},
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
  return {
      "Gradients and speed",
      {
          {"Gradient norms",
           "L2 norm",
           {{"step", "gradient_norm_encoder", "encoder"},
            {"step", "gradient_norm_decoder", "decoder"},
            {"step", "gradient_norm_quantizer", "quantizer"},
            {"step", "gradient_norm_discriminator", "discriminator"}},
           true},
          {"Learning rate",
           "rate",
           {{"step", "lr", "generator"}, {"step", "lr_discriminator", "discriminator"}},
           true},
          {"Steps skipped as not finite", "steps", {{"epoch", "skipped", "skipped"}}, true},
          {"Speed", "images per second", {{"step", "images_per_second", "images per second"}}},
          {"Peak memory",
           "GiB",
           {{"step", "peak_memory_gib", "peak memory"}, {"step", "peak_reserved_gib", "reserved"}},
           true},
      }};
}

}  // namespace

const std::vector<CurveTopic>& known_curves() {
  static const std::vector<CurveTopic> topics = {quality(), codebook(),  drift(),
                                                 losses(),  adversary(), resources()};
  return topics;
}

}  // namespace nsvq
