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

/// A history, and what it is judged by.
class Judge {
 public:
  Judge(const TokenizerConfig& config, const History& history, int64_t codes, int64_t window)
      : config_(config), alarm_(config.alarm), history_(history), codes_(codes), window_(window) {}

  std::optional<AlarmSign> diverging() const;
  std::optional<AlarmSign> unused_codes() const;
  std::optional<AlarmSign> losing_codes() const;
  std::optional<AlarmSign> runaway_norm() const;
  std::optional<AlarmSign> one_hot() const;
  std::optional<AlarmSign> uniform() const;

 private:
  /// Whether each of the last alarm.epochs entries has a sign.
  template <typename Sign>
  bool lasts(const Sign& sign) const {
    return std::ranges::all_of(std::span(history_).last(static_cast<size_t>(alarm_.epochs)), sign);
  }
  /// "the last epoch", "each of the last 3 windows of 20 steps".
  std::string in_words() const {
    const auto span =
        window_ > 0 ? fmt::format("window{} of {} steps", alarm_.epochs == 1 ? "" : "s", window_)
                    : std::string(alarm_.epochs == 1 ? "epoch" : "epochs");
    return alarm_.epochs == 1 ? "the last " + span
                              : fmt::format("each of the last {} {}", alarm_.epochs, span);
  }
  AlarmSign sign(const char* name, const std::string& seen) const {
    const auto helps = remedies(name, config_);
    return {name, seen + (helps.empty() ? "." : fmt::format(". Usual remedies: {}.", helps))};
  }

  const TokenizerConfig& config_;
  const AlarmConfig& alarm_;
  const History& history_;
  int64_t codes_, window_;
};

std::optional<AlarmSign> Judge::diverging() const {
  const auto far = [](const HealthSigns& one) { return one.pixel_error > kGreyError; };
  if (!lasts(far)) return std::nullopt;
  return sign("diverging",
              fmt::format("Reconstructions were further from the images than a grey picture is in "
                          "{} (error {:.3g}, of a grey picture at most {}): training diverges",
                          in_words(), history_.back().pixel_error, kGreyError));
}

std::optional<AlarmSign> Judge::unused_codes() const {
  const double least = alarm_.utilisation;
  if (!lasts([&](const HealthSigns& one) { return one.utilisation < least; })) return std::nullopt;
  return sign(
      "unused_codes",
      fmt::format("Fewer than {:.3g} % of the codes were used in {} (in the last one {:.3g} "
                  "%): the codebook has collapsed, or the codes do not cover the latents "
                  "yet",
                  100 * least, in_words(), 100 * history_.back().utilisation));
}

std::optional<AlarmSign> Judge::losing_codes() const {
  const auto epochs = static_cast<size_t>(alarm_.epochs);
  if (history_.size() <= epochs) return std::nullopt;  // a fall in the first needs one before it
  for (size_t i = history_.size() - epochs; i < history_.size(); ++i) {
    if (!(history_[i].utilisation < history_[i - 1].utilisation)) return std::nullopt;
  }
  double most = 0;
  for (const auto& one : history_) most = std::fmax(most, one.utilisation);
  if (!(history_.back().utilisation < most / 2)) return std::nullopt;
  return sign("losing_codes",
              fmt::format("The share of codes used fell in {}, to {:.3g} % from {:.3g} % at its "
                          "best: the encoder drifts away from its codes",
                          in_words(), 100 * history_.back().utilisation, 100 * most));
}

std::optional<AlarmSign> Judge::runaway_norm() const {
  const auto measured = [](const HealthSigns& one) { return !std::isnan(one.latent_norm); };
  const auto first = std::ranges::find_if(history_, measured);
  if (first == history_.end() || !(first->latent_norm > 0)) return std::nullopt;
  const double limit = alarm_.norm_growth * first->latent_norm;
  if (!lasts([&](const HealthSigns& one) { return one.latent_norm > limit; })) return std::nullopt;
  return sign(
      "latent_norm",
      fmt::format("The latents' mean norm was more than {:.3g} times that of the start "
                  "({:.3g}) in {} (now {:.3g}): the latents grow away from the codes",
                  alarm_.norm_growth, first->latent_norm, in_words(), history_.back().latent_norm));
}

std::optional<AlarmSign> Judge::one_hot() const {
  const auto alone = [](const HealthSigns& one) { return one.neighbours < kOneHot; };
  if (codes_ <= 2 || !lasts(alone)) return std::nullopt;
  return sign("one_hot",
              fmt::format("A latent had {:.3f} effective neighbours, fewer than {}, in {}: the NS "
                          "loss reaches only the nearest code and so has no effect",
                          history_.back().neighbours, kOneHot, in_words()));
}

std::optional<AlarmSign> Judge::uniform() const {
  const double limit = kUniform * static_cast<double>(codes_);
  const auto flat = [&](const HealthSigns& one) { return one.neighbours > limit; };
  // With one or two codes the thresholds of one-hot and uniform overlap.
  if (codes_ <= 2 || !lasts(flat)) return std::nullopt;
  return sign(
      "uniform",
      fmt::format("A latent had {:.0f} of {} codes as effective neighbours, more than half, "
                  "in {}: the NS loss pulls all codes to the same point",
                  history_.back().neighbours, codes_, in_words()));
}

}  // namespace

std::vector<AlarmSign> alarms(const TokenizerConfig& config, const History& history, int64_t codes,
                              int64_t window) {
  const int64_t epochs = config.alarm.epochs;
  if (epochs <= 0 || history.size() < static_cast<size_t>(epochs)) return {};
  const Judge judge(config, history, codes, window);
  if (const auto sign = judge.diverging()) return {*sign};
  auto utilisation = judge.unused_codes();
  if (!utilisation) utilisation = judge.losing_codes();
  std::vector<AlarmSign> signs;
  for (auto sign : {utilisation, judge.runaway_norm(), judge.one_hot(), judge.uniform()}) {
    if (sign) signs.push_back(std::move(*sign));
  }
  return signs;
}

}  // namespace nsvq
