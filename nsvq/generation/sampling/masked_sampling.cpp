#include "nsvq/generation/sampling/masked_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "nsvq/generation/sampling/token_sampling.h"

namespace nsvq {

namespace {

/// floor(size times the fraction whose digits in this base are those of `number`, mirrored).
int64_t mirrored_digits(int64_t number, int64_t base, int64_t size) {
  int64_t value = 0, whole = 1;
  for (; number > 0; number /= base) {
    value = value * base + number % base;
    whole *= base;
  }
  return value * size / whole;
}

double arccos_share(double x) { return std::acos(x) / (std::numbers::pi / 2); }

torch::Tensor at_each(const torch::Tensor& values, const torch::Tensor& places) {
  return values.gather(1, places);
}

/// By step, what logits over the last step's temperature are multiplied by.
torch::Tensor temperature_factors(const SamplingConfig& sampling, int64_t steps) {
  const double first = sampling.temperature / sampling.first_temperature;
  const auto done =
      at::arange(steps, at::kDouble) / static_cast<double>(std::max<int64_t>(steps - 1, 1));
  return (first + (1 - first) * done).to(at::kFloat);
}

/// Seeds [B, n] of draws at positions `places` [B or 1, n], one number more than there are
/// positions for each step.
torch::Tensor seeds_at(const torch::Tensor& seeds, const torch::Tensor& step, int64_t positions,
                       const torch::Tensor& places) {
  return numbered_seeds(seeds.unsqueeze(1), step * (positions + 1) + places);
}

}  // namespace

std::vector<int64_t> halton_order(int64_t height, int64_t width) {
  std::vector<int64_t> order;
  std::vector<bool> met(height * width);
  for (int64_t i = 1; std::ssize(order) < height * width; ++i) {
    const int64_t cell = mirrored_digits(i, 2, height) * width + mirrored_digits(i, 3, width);
    if (!met[cell]) order.push_back(cell);
    met[cell] = true;
  }
  return order;
}

torch::Tensor halton_orders(const GridShape& grid, const torch::Tensor& seeds) {
  const int64_t positions = grid.positions();
  const auto order = at::tensor(halton_order(grid.height, grid.width), at::kLong)
                         .to(seeds.device())
                         .expand({seeds.size(0), -1});
  const auto shift =
      (one_uniform_each(seeds, kOrderDraw) * static_cast<double>(positions)).to(at::kLong);
  const auto places = at::arange(positions, seeds.options()) + shift.unsqueeze(1);
  return at_each(order, places.remainder(positions));
}

std::vector<int64_t> arccos_counts(int64_t positions, int64_t steps) {
  std::vector<int64_t> counts;
  for (int64_t i = 1; i <= steps; ++i) {
    const double share = 1 - arccos_share(static_cast<double>(i) / static_cast<double>(steps));
    // 1e-9: where the share of positions is a whole number, rounding may be below it.
    const auto found = static_cast<int64_t>(share * static_cast<double>(positions) + 1e-9);
    counts.push_back(std::max(i, found));
  }
  return counts;
}

void MaskedSampler::prepare(const MaskedNetwork& network, const TokenRequest& request,
                            const SamplingConfig& sampling, int64_t steps) {
  const auto& seeds = request.seeds;
  const bool kept = graph_ && request.graphs && tokens_.size(0) == seeds.size(0) &&
                    tokens_.device() == seeds.device() && sampling_ == sampling && steps_ == steps;
  if (kept) return;
  graph_.emplace(seeds.device(), request.graphs && seeds.is_cuda());
  sampling_ = sampling;
  steps_ = steps;
  const int64_t positions = network.grid.positions();
  tokens_ = at::zeros({seeds.size(0), positions}, seeds.options());
  step_ = at::zeros({1}, seeds.options());
  weights_.reset();
  if (sampling.guidance != 1) weights_ = guidance_weights(sampling, steps, seeds.device());
  factors_.reset();
  if (sampling.first_temperature > 0) {
    factors_ = temperature_factors(sampling, steps).to(seeds.device());
  }
  auto counts = arccos_counts(positions, steps);
  counts.insert(counts.begin(), 0);
  window_ = 0;
  std::vector<double> masked, heat;
  for (int64_t i = 0; i < steps; ++i) {
    window_ = std::max(window_, counts[i + 1] - counts[i]);
    const double done = static_cast<double>(i + 1) / static_cast<double>(steps);
    masked.push_back(std::cos(std::numbers::pi / 2 * done));
    heat.push_back(sampling.choice_temperature * (1 - done));
  }
  counts_ = at::tensor(counts, at::kLong).to(seeds.device());
  masked_ = at::tensor(masked, at::kDouble).to(seeds.device());
  heat_ = at::tensor(heat, at::kFloat).to(seeds.device());
}

TokenDraw MaskedSampler::draw_by(const torch::Tensor& seeds) const {
  return {seeds, weights_.defined() ? now(weights_) : torch::Tensor(),
          factors_.defined() ? now(factors_) : torch::Tensor(), sampling_};
}

/// Besnier et al. 2025: each step finds the next positions of the order for good. `given`: labels,
/// seeds, orders.
void MaskedSampler::halton_step(const MaskedNetwork& network, const StepGraph::Batch& given) {
  const auto &seeds = given[1], &orders = given[2];
  const int64_t positions = network.grid.positions();
  const auto begin = now(counts_), count = counts_.index_select(0, step_ + 1) - begin;
  const auto ahead = at::arange(window_, seeds.options());
  // Beyond the step's positions the window holds others, which stay as they are.
  const auto places = orders.index_select(1, (begin + ahead).remainder(positions));
  const bool guidance = weights_.defined();
  const auto twice = [&](const torch::Tensor& x) { return guidance ? at::cat({x, x}) : x; };
  const auto hidden = network.hidden(twice(tokens_), given[0], twice(places));
  const auto noise = seeds_at(seeds, step_, positions, places);
  const auto old = at_each(tokens_, places);
  const auto found = ahead.lt(count).logical_and(old.eq(network.mask));
  auto how = draw_by(noise.flatten());
  how.wanted = found.flatten();
  const auto drawn = network.head.draw(hidden.flatten(0, 1), how);
  tokens_.scatter_(1, places, at::where(found, drawn.tokens.view_as(places), old));
}

/// Halton's order too, but each step draws all positions up to its last anew, as the authors'
/// program does. `given`: labels, seeds, the number [B, positions] of each position in the order,
/// or that of positions for tokens that stay.
void MaskedSampler::redrawing_step(const MaskedNetwork& network, const StepGraph::Batch& given) {
  const auto &seeds = given[1], &numbers = given[2];
  const int64_t positions = network.grid.positions();
  const auto all = at::arange(positions, seeds.options()).unsqueeze(0);
  const auto hidden =
      network.hidden(weights_.defined() ? at::cat({tokens_, tokens_}) : tokens_, given[0], {});
  const auto noise = seeds_at(seeds, step_, positions, all);
  const auto found = numbers.lt(counts_.index_select(0, step_ + 1));
  auto how = draw_by(noise.flatten());
  how.wanted = found.flatten();
  const auto drawn = network.head.draw(hidden.flatten(0, 1), how);
  tokens_.copy_(at::where(found, drawn.tokens.view_as(tokens_), tokens_));
}

/// MaskGIT (Chang et al. 2022): each step draws all that is masked, and masks the least likely of
/// them again. `given`: labels, seeds, tokens that were masked at first [B, 1].
void MaskedSampler::confidence_step(const MaskedNetwork& network, const StepGraph::Batch& given) {
  const auto &seeds = given[1], &masked_at_first = given[2];
  const int64_t positions = network.grid.positions();
  const auto all = at::arange(positions, seeds.options()).unsqueeze(0);
  const auto noise = seeds_at(seeds, step_, positions, all);
  auto how = draw_by(noise.flatten());
  how.with_chances = true;
  const auto hidden =
      network.hidden(weights_.defined() ? at::cat({tokens_, tokens_}) : tokens_, given[0], {});
  const auto drawn = network.head.draw(hidden.flatten(0, 1), how);
  const auto masked = tokens_.eq(network.mask);
  const auto found = at::where(masked, drawn.tokens.view_as(tokens_), tokens_);

  const auto chance_noise = gumbel_rows(
      seeds_at(seeds, step_, positions, at::full({1, 1}, positions, seeds.options())).squeeze(1),
      positions);
  const auto confidence =
      (drawn.chances.view_as(tokens_) + now(heat_) * chance_noise)
          .masked_fill(masked.logical_not(), std::numeric_limits<double>::infinity());
  const auto by_confidence = confidence.argsort(/*stable=*/true, 1, /*descending=*/false);
  const auto rank = at::empty_like(by_confidence).scatter_(1, by_confidence, all.expand_as(masked));
  // At least one, but fewer than are masked; none after the last step.
  const auto left = (masked_at_first * now(masked_))
                        .floor()
                        .to(at::kLong)
                        .clamp_min(1)
                        .minimum(masked.sum(1, /*keepdim=*/true) - 1);
  const auto again = rank.lt(left).logical_and(masked).logical_and(step_.lt(steps_ - 1));
  tokens_.copy_(found.masked_fill(again, network.mask));
}

torch::Tensor MaskedSampler::sample(const MaskedNetwork& network, const TokenRequest& request,
                                    const SamplingConfig& sampling, int64_t steps) {
  const torch::NoGradGuard no_grad;
  prepare(network, request, sampling, steps);
  // A graph holds the casts of weights itself: those of autocast's cache do not live as long.
  std::optional<AutocastCacheGuard> casts;
  if (!request.graphs) casts.emplace();
  step_.zero_();
  tokens_.fill_(network.mask);
  if (request.given.defined())
    tokens_.copy_(at::where(request.given.lt(0), tokens_, request.given));
  const auto masked = tokens_.eq(network.mask);
  StepGraph::Batch inputs = {sampled_labels(request, network.grid.classes, weights_.defined()),
                             request.seeds};
  auto step = &MaskedSampler::confidence_step;
  if (sampling.order != "halton") {
    inputs.push_back(masked.sum(1, /*keepdim=*/true));
  } else if (sampling.redraw) {
    const auto numbers = halton_orders(network.grid, request.seeds)
                             .argsort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
    inputs.push_back(numbers.masked_fill(masked.logical_not(), network.grid.positions()));
    step = &MaskedSampler::redrawing_step;
  } else {
    inputs.push_back(halton_orders(network.grid, request.seeds));
    step = &MaskedSampler::halton_step;
  }
  const auto work = [&](const StepGraph::Batch& given) {
    const AutocastGuard autocast(network.precision, step_.device());
    (this->*step)(network, given);
    step_.add_(1);
  };
  for (int64_t i = 0; i < steps; ++i) {
    request.before_step();
    if (!graph_->replay("step", inputs, work)) work(inputs);
  }
  return tokens_.clone();
}

}  // namespace nsvq
