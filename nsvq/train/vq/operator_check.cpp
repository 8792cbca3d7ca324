#include "nsvq/train/vq/operator_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/vq/drift.h"

namespace nsvq {

namespace {

constexpr int64_t kMostLatents = 2048;

/// The recipe's quantizer with these operators. Its first weights are drawn and then never used, so
/// the global generator is set back to its state before.
std::shared_ptr<Quantizer> quantizer_with(QuantizerConfig config, const std::string& operators,
                                          int64_t latent_dim, c10::Device device) {
  config.operators = operators;
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto state = generator.get_state();
  auto quantizer = make_quantizer(config, latent_dim);
  generator.set_state(state);
  quantizer->to(device);
  return quantizer;
}

/// |a - b| / |b| in the L2 norm; 0 where both are zero.
double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  const auto difference = (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
  return difference == 0 ? 0 : difference / b.to(at::kDouble).norm().item<double>();
}

torch::Tensor distances_to(const torch::Tensor& latents, const torch::Tensor& codes,
                           const torch::Tensor& indices) {
  const auto chosen = codes.index_select(0, indices).to(at::kDouble);
  return (latents.to(at::kDouble) - chosen).square().sum(1);
}

/// The quantizer's loss on latents [n, d], and gradients of it and of the mean square of the codes
/// that it hands on: the decoder's side of the objective reaches a quantizer through them.
PathResult run_path(Quantizer& quantizer, const torch::Tensor& rows, const QuantizerStep& step) {
  const at::AutoGradMode with_gradients(true);
  const auto leaf = rows.detach().clone().requires_grad_();
  // [1, d, 1, n], so that rows come out in their order.
  const auto quantized = quantizer.quantize(leaf.t().unsqueeze(0).unsqueeze(2), step);
  std::vector<torch::Tensor> inputs = {leaf};
  for (const auto& parameter : quantizer.parameters()) {
    if (parameter.requires_grad()) inputs.push_back(parameter);
  }
  const auto objective = quantized.loss + quantized.latents.square().mean();
  // Not backward(): nothing is added to any parameter's gradient.
  const auto found = torch::autograd::grad({objective}, inputs, /*grad_outputs=*/{},
                                           /*retain_graph=*/false, /*create_graph=*/false,
                                           /*allow_unused=*/true);
  std::vector<torch::Tensor> gradients;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& gradient = found[i].defined() ? found[i] : at::zeros_like(inputs[i]);
    gradients.push_back(i == 0 ? gradient : gradient.flatten());
  }
  PathResult result{quantized.indices.flatten(), quantized.loss.detach(), gradients.front(), {}};
  gradients.erase(gradients.begin());
  if (!gradients.empty()) result.codebook_gradient = at::cat(gradients);
  return result;
}

}  // namespace

std::map<std::string, double> path_errors(const PathResult& fast, const PathResult& plain,
                                          const torch::Tensor& latents,
                                          const torch::Tensor& codes) {
  const torch::NoGradGuard no_grad;
  const auto differ = fast.indices.ne(plain.indices);
  std::map<std::string, double> errors = {
      {"loss_error", relative_error(fast.loss, plain.loss)},
      {"latent_gradient_error", relative_error(fast.latent_gradient, plain.latent_gradient)}};
  if (differ.numel() > 0) {
    errors["index_mismatch"] = differ.to(at::kDouble).mean().item<double>();
  }
  if (fast.codebook_gradient.defined()) {
    errors["codebook_gradient_error"] =
        relative_error(fast.codebook_gradient, plain.codebook_gradient);
  }
  if (!codes.defined()) return errors;
  const auto rows = differ.nonzero().flatten();
  double gap = 0;
  if (rows.numel() > 0) {
    const auto some = latents.index_select(0, rows);
    const auto a = distances_to(some, codes, fast.indices.index_select(0, rows));
    const auto b = distances_to(some, codes, plain.indices.index_select(0, rows));
    const auto relative =
        (a - b).abs() / at::maximum(a, b);  // 0 / 0: two equal codes at the latent
    gap = relative.nan_to_num(0).max().item<double>();
  }
  errors["code_distance_gap"] = gap;
  return errors;
}

bool operators_agree(const std::map<std::string, double>& errors) {
  // A tie that rounding decides moves the gradients of its two codes, so those may differ by more.
  static const std::map<std::string, double> most = {{"code_distance_gap", 1e-3},
                                                     {"loss_error", 1e-3},
                                                     {"latent_gradient_error", 0.1},
                                                     {"codebook_gradient_error", 0.1}};
  return std::all_of(errors.begin(), errors.end(), [](const auto& error) {
    const auto limit = most.find(error.first);
    return limit == most.end() || error.second <= limit->second;  // NaN is no agreement
  });
}

OperatorCheck::OperatorCheck(const QuantizerConfig& config, int64_t latent_dim,
                             c10::Device device) {
  if (config.operators == "plain") {
    throw UserError(
        "train.check: quantizer.operators is plain, so there is no fast path to check; set one of "
        "them back");
  }
  fast_ = quantizer_with(config, config.operators, latent_dim, device);
  plain_ = quantizer_with(config, "plain", latent_dim, device);
}

std::map<std::string, double> OperatorCheck::compare(const Quantizer& live,
                                                     const torch::Tensor& latents,
                                                     const QuantizerStep& step) {
  for (auto* copy : {fast_.get(), plain_.get()}) {
    load_tensors(*copy, named_tensors(live), "the live quantizer");
  }
  const auto rows = spread_rows(flatten_latents(latents.detach()), kMostLatents);
  const auto fast = run_path(*fast_, rows, step), plain = run_path(*plain_, rows, step);
  return path_errors(fast, plain, plain_->compared(rows), plain_->code_vectors());
}

OperatorMonitor::OperatorMonitor(const TokenizerConfig& config, Tokenizer& model,
                                 const Objective& objective, const PhaseSchedule& schedule,
                                 c10::Device device)
    : every_steps_(config.train.check),
      model_(model),
      objective_(objective),
      schedule_(schedule),
      device_(device) {
  if (every_steps_ > 0) check_.emplace(config.quantizer, config.model.latent_dim, device);
}

void OperatorMonitor::after_step(Journal& journal, const TensorBatch& batch) {
  const torch::NoGradGuard no_grad;
  const auto latents = model_->to_latents(batch.front());
  if (!at::isfinite(latents).all().item<bool>()) return;  // NaN has no nearest code
  const auto step = at::full({}, journal.state().step, at::device(device_).dtype(at::kLong));
  const StepInputs inputs{.step = step, .seed = step, .noise_seed = step, .share = {}};
  const auto errors = check_->compare(*model_->quantizer, latents,
                                      objective_.quantizer_terms(schedule_.phase(), inputs));
  journal.record("check", errors);
  if (!operators_agree(errors)) {
    log("CHECK     step {}: the fast quantizer path differs from the plain one: {}",
        journal.state().step, describe_scalars(errors));
  }
}

}  // namespace nsvq
