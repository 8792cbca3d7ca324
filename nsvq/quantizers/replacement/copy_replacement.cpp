#include <ATen/CPUGeneratorImpl.h>

#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/quantizers/replacement/replacement.h"

namespace nsvq {

namespace {

/// The paper's codebook replacement: after a window, in the paper an epoch, every code used less
/// often than replacement.threshold is overwritten by a copy of an active one, drawn in proportion
/// to usage ("usage") or the most used one ("most_used"), plus N(0, s^2). s is replacement.sigma,
/// or, where that is more, replacement.sigma_relative of the spread of the active codes. The first
/// `exempt_epochs` (`exempt_steps` where windows are steps) are left alone, and so is a codebook
/// without an active code.
class CopyReplacement : public Replacement {
 public:
  explicit CopyReplacement(const ReplacementConfig& config)
      : every_steps_(config.every_steps),
        threshold_(config.threshold),
        settings_(config.of<CopyReplacementConfig>()) {}

  torch::Tensor after_window(torch::Tensor codebook, const torch::Tensor& usage,
                             const WindowEnd& end, uint64_t seed) override;

 private:
  bool exempt(const WindowEnd& end) const;

  int64_t every_steps_;
  double threshold_;
  CopyReplacementConfig settings_;
};

/// An active row for each of `count` dead ones.
torch::Tensor draw_sources(const torch::Tensor& usage, const torch::Tensor& active, int64_t count,
                           const std::string& source, const at::Generator& generator) {
  if (source == "most_used") return usage.argmax().expand({count});
  // By inverse transform: multinomial would refuse more than 2^24 codes.
  const auto total = at::where(active, usage, at::zeros_like(usage)).to(at::kDouble).cumsum(0);
  const auto draws = at::rand({count}, generator, at::kDouble) * total[-1];
  return at::searchsorted(total, draws, /*out_int32=*/false, /*right=*/true);
}

/// [count, width] of N(0, 1), on the codebook's device: drawing those of 65,536 codes on the CPU
/// would take a GPU as long as five training steps.
torch::Tensor draw_noise(const torch::Tensor& codebook, int64_t count,
                         const at::Generator& generator, uint64_t seed) {
  const int64_t width = codebook.size(1);
  if (codebook.is_cpu()) return at::randn({count, width}, generator);
  const auto start = at::full({1}, static_cast<int64_t>(seed), codebook.options().dtype(at::kLong));
  return normal_values(start, /*draw=*/0, count * width).view({count, width});
}

/// Root of the mean variance of a channel of the active codes, each weighted by its usage: about
/// the deviation of a latent's numbers. A scalar in fp64 on the codebook's device.
torch::Tensor spread_of(const torch::Tensor& codebook, const torch::Tensor& usage,
                        const torch::Tensor& active) {
  const auto rows = active.nonzero().flatten();
  const auto counts = usage.index_select(0, rows).to(at::kDouble);
  const auto shares = (counts / counts.sum()).to(codebook.device()).unsqueeze(1);
  const auto codes = codebook.index_select(0, rows.to(codebook.device())).to(at::kDouble);
  const auto mean = (shares * codes).sum(0);
  return (shares * (codes - mean).square()).sum(0).mean().sqrt();
}

std::vector<Option> copy_options(ReplacementConfig& config) {
  auto& copy = config.of<CopyReplacementConfig>();
  return {
      {"replacement.exempt_epochs", &copy.exempt_epochs,
       "copy: first epochs, in which no code is replaced, if replacement.every_steps is 0",
       Range::at_least(0)},
      {"replacement.exempt_steps", &copy.exempt_steps,
       "copy: first steps, in which no code is replaced, if replacement.every_steps is not 0",
       Range::at_least(0)},
      {"replacement.sigma", &copy.sigma, "copy: noise added to the copy of the source code",
       Range::between(0, 1e9)},
      {"replacement.sigma_relative", &copy.sigma_relative,
       "copy: that noise as a share of the spread of active codes, replacement.sigma at least; 0: "
       "replacement.sigma",
       Range::between(0, 1e9)},
      {"replacement.source", &copy.source,
       "copy: the code to copy, drawn in proportion to usage, or the most used",
       Range::one_of({"usage", "most_used"})},
  };
}

}  // namespace

ReplacementKind copy_replacement_kind() {
  return {.name = "copy",
          .make =
              [](const ReplacementConfig& config, const torch::Tensor& /*codebook*/) {
                return std::make_unique<CopyReplacement>(config);
              },
          .options = copy_options};
}

bool CopyReplacement::exempt(const WindowEnd& end) const {
  if (every_steps_ > 0) return end.step <= settings_.exempt_steps;
  return end.epoch <= settings_.exempt_epochs;
}

torch::Tensor CopyReplacement::after_window(torch::Tensor codebook, const torch::Tensor& usage,
                                            const WindowEnd& end, uint64_t seed) {
  if (exempt(end)) return {};
  const torch::NoGradGuard no_grad;
  const auto counts = usage.to(at::kCPU);
  // A code that nothing chose is no source, even where the threshold is 0.
  const auto active = counts.ge(threshold_).logical_and(counts.gt(0));
  const auto unused = counts.lt(threshold_);
  const auto dead = unused.nonzero().flatten();
  if (dead.numel() == 0 || !active.any().item<bool>()) return {};

  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto sources = draw_sources(counts, active, dead.numel(), settings_.source, generator);
  auto noise = draw_noise(codebook, dead.numel(), generator, seed);
  if (settings_.sigma_relative > 0) {
    const auto deviation = spread_of(codebook, counts, active) * settings_.sigma_relative;
    noise = noise * deviation.clamp_min(settings_.sigma).to(noise);
  } else {
    noise = noise * settings_.sigma;
  }
  const auto device = codebook.device();
  codebook.index_copy_(0, dead.to(device),
                       codebook.index_select(0, sources.to(device)) + noise.to(codebook));
  return unused.to(device);
}

}  // namespace nsvq
