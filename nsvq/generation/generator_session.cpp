#include "nsvq/generation/generator_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

std::optional<TokenCodec> open_codec(const LoadedGenerator& generator,
                                     const GeneratorSession::Options& options) {
  const auto& reference = generator.tokenizer;
  if (reference.sha256.empty()) {
    if (options.tokenizer.empty()) return std::nullopt;
    throw UserError("--tokenizer {}: {} was trained on tokens without a tokenizer",
                    options.tokenizer, generator.file.string());
  }
  std::optional<TokenCodec> codec(
      std::in_place, find_tokenizer(generator.file, reference, options.tokenizer), options.device);
  require_tokenizer(codec->reference(), reference, generator.file);
  return codec;
}

}  // namespace

GeneratorSession::GeneratorSession(LoadedGenerator generator, const Options& options)
    : generator_(std::move(generator)),
      device_(options.device),
      flags_(sampling_torch_settings(generator_.config, device_, options.threads)),
      stream_(device_),
      codec_(open_codec(generator_, options)) {
  const auto& config = generator_.config;
  check_sampling(config.sampling, config.generator, generator_.grid);
  move_to_device(*generator_.generator, config, device_);
  sampler_.emplace(generator_.generator, generator_.grid, config.sampling, device_,
                   options.batch_size, /*graphs=*/device_.is_cuda());
}

torch::Tensor GeneratorSession::sample_tokens(const GenerationRequest& request) {
  if (!std::exchange(cast_, true)) cast_for_sampling(*generator_.generator);
  return sampler_->sample(request);
}

TokenCodec& GeneratorSession::codec() {
  if (codec_) return *codec_;
  throw UserError(
      "{}: was trained on tokens without a tokenizer, so it makes no images; `nsvq generate sample "
      "--out FILE.npy` gives tokens",
      generator_.file.string());
}

torch::Tensor GeneratorSession::decode(const torch::Tensor& tokens) {
  const int64_t count = tokens.size(0), batch = sampler_->batch_size();
  std::vector<torch::Tensor> images;
  for (int64_t first = 0; first < count; first += batch) {
    const int64_t size = std::min(batch, count - first);
    // Filled up with the last one.
    const auto rows = at::arange(first, first + batch, tokens.options()).clamp_max(count - 1);
    images.push_back(codec().decode(tokens.index_select(0, rows)).narrow(0, 0, size));
  }
  return at::cat(images);
}

void GeneratorSession::require_fills_gaps() const {
  const auto& family = generator_.config.generator.family;
  if (generator_kind(family).fills_gaps) return;
  std::string others;
  for (const auto& kind : generator_kinds()) {
    if (kind.fills_gaps) others += (others.empty() ? "" : ", ") + kind.name;
  }
  throw UserError("{}: a generator of family {} fills no gaps; one of these does: {}",
                  generator_.file.string(), family, others);
}

torch::Tensor GeneratorSession::tokens_of(const torch::Tensor& image) {
  const auto tokens = codec().encode(image.unsqueeze(0).to(device_));
  if (tokens.min().item<int64_t>() < 0) {
    throw UserError("{}: the latents of this image are non-finite", codec().name());
  }
  return tokens.squeeze(0);
}

torch::Tensor GeneratorSession::fill(const torch::Tensor& image, const torch::Tensor& mask,
                                     GenerationRequest request) {
  require_fills_gaps();
  request.given = tokens_of(image).masked_fill(mask.to(device_), -1).flatten();
  return sample(request);
}

/// The half of the image on that side is the model's other half, and what is new goes behind it.
torch::Tensor GeneratorSession::continued(const torch::Tensor& image, ImageSide side,
                                          GenerationRequest request) {
  require_fills_gaps();
  const bool across = side == ImageSide::left || side == ImageSide::right;
  const bool ahead = side == ImageSide::right || side == ImageSide::bottom;
  const int64_t axis = across ? 1 : 0, length = across ? grid().width : grid().height;
  const int64_t kept = (length + 1) / 2, fresh = length - kept;
  const auto known = tokens_of(image);
  const auto shared = ahead ? known.narrow(axis, fresh, kept) : known.narrow(axis, 0, kept);
  auto shape = known.sizes().vec();
  shape[static_cast<size_t>(axis)] = fresh;
  const auto unknown = at::full(shape, -1, known.options());
  request.given = at::cat(ahead ? std::vector<torch::Tensor>{shared, unknown}
                                : std::vector<torch::Tensor>{unknown, shared},
                          axis)
                      .flatten();
  const auto made = sample(request);
  // The image as it was, and the new part of what was made.
  const int64_t pixels = fresh * codec().stride(), pixel_axis = axis + 2;
  const auto whole = image.to(device_).unsqueeze(0).expand({made.size(0), -1, -1, -1});
  const auto added = made.narrow(pixel_axis, ahead ? made.size(pixel_axis) - pixels : 0, pixels);
  return at::cat(
      ahead ? std::vector<torch::Tensor>{whole, added} : std::vector<torch::Tensor>{added, whole},
      pixel_axis);
}

std::string GeneratorSession::sha256() const {
  TORCH_CHECK(!cast_, "GeneratorSession: sha256 after sampling");
  return tensors_sha256(named_tensors(*generator_.generator)) + generator_.tokenizer.sha256;
}

}  // namespace nsvq
