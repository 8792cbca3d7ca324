#include "nsvq/train/vq/alarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace nsvq {

namespace {

using History = std::vector<HealthSigns>;

/// With fewer effective neighbours than this the NS loss's softmax counts as one-hot.
constexpr double kOneHot = 1.05;
/// With a larger share of the codes as neighbours than this the softmax counts as uniform.
constexpr double kUniform = 0.5;

/// The error of a grey picture is at most this, by absolute and by squared differences.
constexpr double kGrey = 1;

/// The last `epochs` entries: a sign must be present in each of them to raise the alarm.
std::span<const HealthSigns> last(const History& history, int64_t epochs) {
  return std::span(history).last(static_cast<size_t>(epochs));
}

/// "the last epoch", "each of the last 3 epochs".
std::string in_words(int64_t epochs) {
  return epochs == 1 ? "the last epoch" : fmt::format("each of the last {} epochs", epochs);
}

std::optional<AlarmSign> diverging(const AlarmConfig& config, const History& history) {
  const auto far = [](const HealthSigns& epoch) { return epoch.pixel_error > kGrey; };
  if (!std::ranges::all_of(last(history, config.epochs), far)) return std::nullopt;
  return AlarmSign{
      "diverging",
      fmt::format(
          "Reconstructions were further from the images than a grey picture is in {} (error "
          "{:.3g}, of a grey picture at most {}): training diverges. Lower optimizer.lr and "
          "start a new run.",
          in_words(config.epochs), history.back().pixel_error, kGrey)};
}

std::optional<AlarmSign> unused_codes(const AlarmConfig& config, const History& history) {
  const auto low = [&](const HealthSigns& epoch) { return epoch.utilisation < config.utilisation; };
  if (!std::ranges::all_of(last(history, config.epochs), low)) return std::nullopt;
  return AlarmSign{
      "unused_codes",
      fmt::format("Fewer than {:.3g} % of the codes were used in {} (in the last one {:.3g} %): "
                  "the codebook has collapsed, or the codes do not cover the latents yet. Usual "
                  "remedies: quantizer.type: nsvq with replacement.policy: copy; a smaller "
                  "loss.perceptual, which drives the latents away from the codes; fewer codes "
                  "(quantizer.codes).",
                  100 * config.utilisation, in_words(config.epochs),
                  100 * history.back().utilisation)};
}

std::optional<AlarmSign> losing_codes(const AlarmConfig& config, const History& history) {
  const auto epochs = static_cast<size_t>(config.epochs);
  if (history.size() <= epochs)
    return std::nullopt;  // a fall in the first epoch needs one before it
  for (size_t i = history.size() - epochs; i < history.size(); ++i) {
    if (!(history[i].utilisation < history[i - 1].utilisation)) return std::nullopt;
  }
  double most = 0;
  for (const auto& epoch : history) most = std::fmax(most, epoch.utilisation);
  if (!(history.back().utilisation < most / 2)) return std::nullopt;
  return AlarmSign{
      "losing_codes",
      fmt::format("The share of codes used fell in {}, to {:.3g} % from {:.3g} % at its best: the "
                  "encoder drifts away from its codes. Freeze it earlier (schedule.latest_epoch), "
                  "or lower optimizer.lr.",
                  in_words(config.epochs), 100 * history.back().utilisation, 100 * most)};
}

std::optional<AlarmSign> runaway_norm(const AlarmConfig& config, const History& history) {
  const auto measured = [](const HealthSigns& epoch) { return !std::isnan(epoch.latent_norm); };
  const auto first = std::ranges::find_if(history, measured);
  if (first == history.end() || !(first->latent_norm > 0)) return std::nullopt;
  const double limit = config.norm_growth * first->latent_norm;
  const auto large = [&](const HealthSigns& epoch) { return epoch.latent_norm > limit; };
  if (!std::ranges::all_of(last(history, config.epochs), large)) return std::nullopt;
  return AlarmSign{
      "latent_norm",
      fmt::format("The latents' mean norm was more than {:.3g} times that of the start ({:.3g}) in "
                  "{} (now {:.3g}): the latents grow away from the codes. Lower loss.perceptual, "
                  "which causes this when it outweighs the other terms, or raise quantizer.beta.",
                  config.norm_growth, first->latent_norm, in_words(config.epochs),
                  history.back().latent_norm)};
}

std::optional<AlarmSign> one_hot(const AlarmConfig& config, const History& history, int64_t codes) {
  const auto alone = [](const HealthSigns& epoch) { return epoch.neighbours < kOneHot; };
  if (codes <= 2 || !std::ranges::all_of(last(history, config.epochs), alone)) return std::nullopt;
  return AlarmSign{
      "one_hot",
      fmt::format("A latent had {:.3f} effective neighbours, fewer than {}, in {}: the NS loss "
                  "reaches only the nearest code and so has no effect. Raise quantizer.tau, or, "
                  "if the latents' norm has grown, lower loss.perceptual.",
                  history.back().neighbours, kOneHot, in_words(config.epochs))};
}

std::optional<AlarmSign> uniform(const AlarmConfig& config, const History& history, int64_t codes) {
  const double limit = kUniform * static_cast<double>(codes);
  const auto flat = [&](const HealthSigns& epoch) { return epoch.neighbours > limit; };
  // With one or two codes the thresholds of one-hot and uniform overlap.
  if (codes <= 2 || !std::ranges::all_of(last(history, config.epochs), flat)) return std::nullopt;
  return AlarmSign{
      "uniform",
      fmt::format("A latent had {:.0f} of {} codes as effective neighbours, more than half, in {}: "
                  "the NS loss pulls all codes to the same place. Lower quantizer.tau, or start "
                  "from quantizer.init: gaussian or data rather than uniform.",
                  history.back().neighbours, codes, in_words(config.epochs))};
}

}  // namespace

std::vector<AlarmSign> alarms(const AlarmConfig& config, const History& history, int64_t codes) {
  if (config.epochs <= 0 || history.size() < static_cast<size_t>(config.epochs)) return {};
  if (const auto sign = diverging(config, history)) return {*sign};
  auto utilisation = unused_codes(config, history);
  if (!utilisation) utilisation = losing_codes(config, history);
  std::vector<AlarmSign> signs;
  for (auto sign : {utilisation, runaway_norm(config, history), one_hot(config, history, codes),
                    uniform(config, history, codes)}) {
    if (sign) signs.push_back(std::move(*sign));
  }
  return signs;
}

}  // namespace nsvq
