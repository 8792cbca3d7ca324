#include "nsvq/report/page_data.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/images/image.h"
#include "nsvq/report/samples.h"
#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The most codes that a screen and a small page have room for.
constexpr int64_t kMostCodes = 16384;
constexpr int64_t kMostImages = 16;
/// White pixels between the images of a sample picture (make_grid).
constexpr int64_t kGap = 2;

/// The images of a sample picture, [B, 3, S, S] in [-1, 1]: they stand above their reconstructions.
torch::Tensor images_above(const Image& picture, const std::string& name) {
  const int64_t size = (picture.height - kGap) / 2;
  if (size < 1 || (picture.height - kGap) % 2 != 0 || (picture.width + kGap) % (size + kGap) != 0) {
    throw UserError("{}: not images with their reconstructions below", name);
  }
  const auto pixels = torch::tensor(at::ArrayRef<uint8_t>(picture.pixels), torch::kByte)
                          .view({picture.height, picture.width, 3})
                          .slice(0, 0, size)
                          .to(torch::kFloat)
                          .div(127.5)
                          .sub(1);
  const int64_t count = std::min((picture.width + kGap) / (size + kGap), kMostImages);
  std::vector<torch::Tensor> images;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t left = i * (size + kGap);
    images.push_back(pixels.slice(1, left, left + size).permute({2, 0, 1}));
  }
  return torch::stack(images);
}

/// Throws UserError for a picture whose size the model cannot encode.
torch::Tensor images_for(const InferenceSession& session, const SampleFile& sample) {
  const auto images = images_above(read_image(sample.path), sample.path.filename().string());
  if (images.size(2) % session.stride() != 0) {
    throw UserError("the sample images' size is no multiple of the model's stride");
  }
  return images;
}

/// Epoch and images of the newest whole picture that fits the model. Throws what is wrong with the
/// newest picture if none does.
std::pair<int64_t, torch::Tensor> newest_images(const InferenceSession& session,
                                                const fs::path& run) {
  const auto samples = find_samples(run);
  if (samples.empty()) throw UserError("samples/ has no picture");
  std::exception_ptr first;
  for (auto sample = samples.rbegin(); sample != samples.rend(); ++sample) {
    try {
      return {sample->epoch, images_for(session, *sample)};
    } catch (const UserError&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

void add_tokens(CodeMap& map, InferenceSession& session, const fs::path& run) {
  const auto [epoch, images] = newest_images(session, run);
  const auto tokens = session.encode(images).cpu().contiguous();
  map.epoch = epoch;
  map.grid_height = tokens.size(1);
  map.grid_width = tokens.size(2);
  for (int64_t i = 0; i < tokens.size(0); ++i) {
    const auto* data = tokens[i].const_data_ptr<int64_t>();
    map.tokens.emplace_back(data, data + tokens[i].numel());
  }
}

/// All codes, or the most used and then the first, in order.
std::vector<int64_t> codes_on_map(const CodeMap& map) {
  std::vector<int64_t> codes;
  if (map.codes <= kMostCodes) {
    for (int64_t i = 0; i < map.codes; ++i) codes.push_back(i);
    return codes;
  }
  auto uses = torch::zeros({map.codes}, torch::kLong);
  for (const auto& tokens : map.tokens) {
    const auto indices = torch::tensor(at::ArrayRef<int64_t>(tokens), torch::kLong);
    uses.index_add_(0, indices, torch::ones_like(indices));
  }
  const auto order = std::get<1>(uses.sort(/*stable=*/true, 0, /*descending=*/true));
  const auto* first = order.const_data_ptr<int64_t>();
  codes.assign(first, first + kMostCodes);
  std::sort(codes.begin(), codes.end());
  return codes;
}

void add_map(CodeMap& map, Quantizer& quantizer) {
  auto vectors = quantizer.code_vectors();
  if (!vectors.defined()) {
    map.no_map = "The codes of this quantizer are too many to list.";
    return;
  }
  vectors = vectors.detach().to(torch::kCPU, torch::kDouble);
  if (quantizer.distance() == Distance::cosine) {
    vectors = vectors / vectors.norm(2, 1, true).clamp_min(1e-12);
  }
  if (!vectors.isfinite().all().item<bool>()) {
    map.no_map = "Some codes are not finite.";
    return;
  }
  const auto [coordinates, shares] = main_directions(vectors);
  map.x_share = shares[0].item<double>();
  map.y_share = shares[1].item<double>();
  // One scale for both, so that distances on the map are those of the projection.
  const auto low = std::get<0>(coordinates.min(0)), high = std::get<0>(coordinates.max(0));
  const double side = std::max((high - low).max().item<double>(), 1e-30);
  const auto unit = ((coordinates - (low + high) / 2) / side + 0.5).clamp(0, 1);
  map.code = codes_on_map(map);
  const auto rows = unit.accessor<double, 2>();
  for (const int64_t code : map.code) {
    map.x.push_back(static_cast<float>(rows[code][0]));
    map.y.push_back(static_cast<float>(rows[code][1]));
  }
}

}  // namespace

MainDirections main_directions(const torch::Tensor& vectors) {
  const auto centred = vectors.to(torch::kDouble) - vectors.to(torch::kDouble).mean(0, true);
  const auto [values, columns] = at::linalg_eigh(centred.t().mm(centred));  // rising
  const int64_t dims = vectors.size(1), kept = std::min<int64_t>(dims, 2);
  auto directions = columns.slice(1, dims - kept, dims).flip(1);
  const auto largest = directions.gather(0, directions.abs().argmax(0, true));
  directions = directions * largest.sign();
  const auto total = values.clamp_min(0).sum().clamp_min(1e-300);
  auto shares = values.clamp_min(0).slice(0, dims - kept, dims).flip(0) / total;
  auto coordinates = centred.mm(directions);
  if (kept == 1) {
    coordinates = torch::cat({coordinates, torch::zeros_like(coordinates)}, 1);
    shares = torch::cat({shares, torch::zeros_like(shares)});
  }
  return {coordinates.contiguous(), shares};
}

CodeMap map_codes(const fs::path& run) {
  const torch::NoGradGuard no_grad;
  InferenceSession session(run, "cpu");
  session.require_tokens();
  CodeMap map;
  map.model = session.file().parent_path().filename().string();
  map.codes = session.codes();
  try {
    add_tokens(map, session, run);
  } catch (const UserError& error) {
    map.no_tokens = error.what();
  } catch (const c10::Error& error) {  // latents that are not finite
    map.no_tokens = error.what_without_backtrace();
  }
  add_map(map, *session.tokenizer()->quantizer);
  return map;
}

}  // namespace nsvq
