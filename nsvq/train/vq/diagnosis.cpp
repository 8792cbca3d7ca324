#include "nsvq/train/vq/diagnosis.h"

#include <ATen/record_function.h>

#include <functional>
#include <string_view>

namespace nsvq {

namespace {

bool finite(const torch::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

/// Records the first operator called in this thread whose output is non-finite. RecordFunction
/// callbacks are plain functions, so they find this object through a thread-local pointer.
class Watch {
 public:
  explicit Watch(const torch::nn::Module& model) {
    for (const auto& item : model.named_parameters()) {
      const auto layer = item.key().substr(0, item.key().rfind('.'));
      names_[item.value().unsafeGetTensorImpl()] = layer;
    }
    active = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Watch() {
    at::removeCallback(handle_);
    active = nullptr;
  }

  std::string found;

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
    for (const auto& input : call.inputs()) {
      if (!input.isTensor() || !input.toTensor().defined()) continue;
      const auto name = active->names_.find(input.toTensor().unsafeGetTensorImpl());
      if (name != active->names_.end()) active->layer_ = name->second;
    }
    return nullptr;
  }

  static void on_end(const at::RecordFunction& call, at::ObserverContext*) {
    const std::string_view name = call.name();
    const bool fresh = name.find("empty") != name.npos || name.find("resize") != name.npos;
    // Uninitialised memory may hold NaN.
    if (fresh || !active->found.empty()) return;
    const at::RecordFunctionGuard unwatched(false);
    for (const auto& output : call.outputs()) {
      if (!output.isTensor() || !output.toTensor().defined() || finite(output.toTensor())) continue;
      const bool started = !active->layer_.empty();
      active->found = fmt::format("{} {} {}", call.name(), started ? "at" : "before",
                                  started ? active->layer_ : "the first layer");
      return;
    }
  }

  static thread_local Watch* active;
  std::map<const c10::TensorImpl*, std::string> names_;
  std::string layer_;  ///< the layer whose parameters were used last
  at::CallbackHandle handle_;
};

thread_local Watch* Watch::active = nullptr;

/// The first operator in `action` with a non-finite output, and its layer; empty if there is none.
std::string watch(const torch::nn::Module& model, const std::function<void()>& action) {
  Watch watch(model);
  action();
  return watch.found;
}

}  // namespace

NonfiniteLocation first_nonfinite(Tokenizer& model, const torch::Tensor& images,
                                  const std::map<std::string, double>& scalars) {
  const torch::NoGradGuard no_grad;
  if (!finite(images)) return {"the images", true};
  if (const auto name = first_nonfinite(named_tensors(*model)); !name.empty()) {
    return {"the weight " + name, true};
  }
  torch::Tensor latents;
  auto found = watch(*model, [&] { latents = model->to_latents(images); });
  if (!found.empty()) return {found, true};
  // Not watched: the search uses infinite distances internally.
  const auto given = model->quantizer->assign(latents).latents;
  found = watch(*model, [&] { model->to_images(given); });
  if (!found.empty()) return {found, true};
  const auto parameters = model->named_parameters();
  for (auto i = static_cast<int64_t>(parameters.size()) - 1; i >= 0; --i) {
    const auto& gradient = parameters[i].value().grad();
    if (gradient.defined() && !finite(gradient)) {
      return {"the gradient of " + parameters[i].key()};
    }
  }
  const std::string norm = "gradient_norm_";
  for (const auto& [name, value] : scalars) {
    if (name.starts_with(norm) && !std::isfinite(value)) {
      return {"a gradient of the " + name.substr(norm.size())};
    }
  }
  return {"a term of the loss"};
}

std::optional<NonfiniteLocation> Diagnosis::locate_nonfinite(const SkippedSteps& skipped) {
  const auto location = first_nonfinite(model_, skipped.batch.front(), skipped.values);
  const auto* adversary = objective_.adversary();
  if (location.own || !adversary) return location;
  const auto name = first_nonfinite(named_tensors(adversary->module()));
  if (name.empty()) return location;
  return NonfiniteLocation{"the discriminator's weight " + name, true};
}

}  // namespace nsvq
