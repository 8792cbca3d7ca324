#include "nsvq/train/setup.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/nn/layers.h"
#include "nsvq/train/evaluate.h"

namespace nsvq {

uint64_t seed_for(const Config& config, Draw draw, int64_t number) {
  return combine_seeds({static_cast<uint64_t>(config.seed), static_cast<uint64_t>(draw),
                        static_cast<uint64_t>(number)});
}

void prepare_torch(const Config& config) {
  at::set_num_threads(config.threads > 0 ? static_cast<int>(config.threads) : usable_cores());
  at::globalContext().setDeterministicCuDNN(config.train.deterministic);
  at::globalContext().setBenchmarkCuDNN(!config.train.deterministic);
#if defined(__aarch64__)
  // There oneDNN falls back to its reference matrix product for the gradients of convolutions, and
  // NNPACK is slower than PyTorch's own convolution too (bench/convolution.py).
  at::globalContext().setUserEnabledMkldnn(false);
  at::globalContext().setUserEnabledNNPACK(false);
#endif
}

void place(Tokenizer& model, const Config& config, c10::Device device) {
  model->to(device);
  use_gpu_layout(*model);
  // A model that was trained on a GPU can be used on a CPU.
  const auto& name = config.train.precision;
  const bool lacking = device.is_cpu() && (name == "fp16" || name == "tf32");
  model->precision = choose_precision(lacking ? "fp32" : name, device);
  // Matrix products in fp32 stay so: there are few, and a quantizer's are among them, which knows
  // where it may round.
  at::globalContext().setAllowTF32CuDNN(model->precision != Precision::fp32);
}

void prepare_inference([[maybe_unused]] Tokenizer& model) {
#if defined(__aarch64__)
  // oneDNN is slow there with gradients only (bench/convolution.py); it works on channels-last
  // memory and would reorder weights that are not. NNPACK is as fast, but its threads wait by
  // spinning, which takes minutes for seconds where other programs use the cores.
  at::globalContext().setUserEnabledMkldnn(true);
  make_channels_last(*model);
#endif
}

std::shared_ptr<const Source> open_source_of(const std::string& key, const std::string& spec) {
  try {
    return open_source(spec);
  } catch (const UserError& error) {
    throw UserError("{}: {}; set {}=PATH", key, error.what(), key);
  }
}

int64_t inference_batch_size(const Config& config, const TransformOptions& transform,
                             c10::Device device) {
  if (device.is_cpu()) return config.train.batch_size;
  const auto precision = choose_precision(config.train.precision, device);
  const bool half = precision == Precision::bf16 || precision == Precision::fp16;
  const int64_t image_bytes = int64_t{transform.output_height()} * transform.output_width() *
                              config.model.width * config.model.multipliers.front() *
                              (half ? 2 : 4);
  constexpr int64_t activation_bytes = int64_t{1} << 29, most = 1024;
  const int64_t room = std::clamp<int64_t>(activation_bytes / image_bytes, 1, most);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(room)));
}

LoaderOptions training_options(const Config& config, const Group& group, c10::Device device) {
  auto options = evaluation_options(config, group, device);
  options.transform.crop = config.data.crop == "random" ? Crop::random : Crop::center;
  options.transform.flip = config.data.flip;
  options.shuffle = true;
  options.seed = seed_for(config, Draw::batches);
  return options;
}

Tokenizer make_model(const Config& config, c10::Device device) {
  torch::manual_seed(seed_for(config, Draw::weights));
  choose_precision(config.train.precision, device);  // which may refuse it
  Tokenizer model(config);
  model->encoder->recompute = model->decoder->recompute = config.train.recompute;
  place(model, config, device);
  return model;
}

Adam::Named named_parameters(const torch::nn::Module& module) {
  Adam::Named parameters;
  for (const auto& item : module.named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return parameters;
}

void freeze(torch::nn::Module& module, bool frozen) {
  for (auto& parameter : module.parameters()) parameter.set_requires_grad(!frozen);
}

torch::Tensor first_images(std::shared_ptr<const Source> source, const Config& config,
                           const Group& group, int64_t count) {
  auto options = evaluation_options(config, group);
  options.batch_size = count;
  Loader loader(std::move(source), options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("data.val: {}: no usable image", config.data.val);
  return batch->images;
}

std::string describe_scalars(const std::map<std::string, double>& scalars) {
  std::string text;
  for (const auto& [name, value] : scalars) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

}  // namespace nsvq
