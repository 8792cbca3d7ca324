#include "nsvq/tokens/detokenize.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npy.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/picture_output.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"
#include "nsvq/tokens/variants.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError for an index outside the codebook, as in tokens of a different model.
void check_codes(const TokenShard& shard, int64_t codes, const fs::path& path, bool other_model) {
  if (shard.tokens.numel() == 0) return;
  const int64_t largest = shard.tokens.max().item<int64_t>();
  if (largest >= codes) {
    throw UserError(
        "{}: contains the index {}, but the model's codes are 0 to {}{}", path.string(), largest,
        codes - 1,
        other_model ? "; the tokens are of another model, which has to decode them" : "");
  }
}

/// Throws UserError for tokens of other grids than the model's.
void require_grids(const TokenSettings& settings, const Quantizer& quantizer,
                   const fs::path& folder) {
  if (settings.groups > 1) {
    throw UserError("{}: codes in {} groups, and no model of this program has groups",
                    folder.string(), settings.groups);
  }
  const auto wanted = quantizer.grids(settings.grid_height, settings.grid_width);
  if (settings.grids() == wanted) return;
  throw UserError("{}: its images have {}, and those of this model {}", folder.string(),
                  shown_grids(settings.grids()), shown_grids(wanted));
}

/// Tokens [n, ...] of one variant of each image.
torch::Tensor central(const torch::Tensor& tokens, const TokenSettings& settings) {
  const auto& variants = settings.variants;
  return variants.empty() ? tokens : tokens.select(1, central_variant(variants));
}

/// Images of tokens, on the CPU.
torch::Tensor pictures_of(InferenceSession& session, const torch::Tensor& tokens) {
  return as_rounded(session.decode(tokens), session.config().model).to(at::kCPU);
}

constexpr auto kStandardInput = "-";

torch::Tensor read_npy_tokens(const std::string& name) {
  const auto bytes = read_file(name);
  try {
    return parse_npy(bytes, NpyNumbers::integer);
  } catch (const UserError& error) {
    throw UserError("{}: {}", name, error.what());
  }
}

/// The tensor called tokens, or the only one of integers.
torch::Tensor read_safetensors_tokens(const std::string& name) {
  const auto file = read_safetensors(name);
  const auto named = file.tensors.find("tokens");
  if (named != file.tensors.end()) return named->second;
  std::vector<std::string> found;
  for (const auto& [key, tensor] : file.tensors) {
    if (torch::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) found.push_back(key);
  }
  if (found.size() == 1) return file.tensors.at(found[0]);
  throw UserError("{}: holds {} tensors of integers, expected one, or one called tokens", name,
                  found.size());
}

torch::Tensor read_raw_tokens(int64_t grid) {
  const auto bytes = read_stream("/dev/stdin");
  const auto image = static_cast<size_t>(grid) * sizeof(int32_t);
  if (bytes.size() % image != 0) {
    throw UserError(
        "standard input: {} bytes are no whole number of images of {} tokens as int32, {} bytes "
        "each",
        bytes.size(), grid, image);
  }
  auto tokens = torch::empty({static_cast<int64_t>(bytes.size() / image), grid}, torch::kInt32);
  if (!bytes.empty()) std::memcpy(tokens.data_ptr(), bytes.data(), bytes.size());
  return tokens;
}

/// Tokens [n, h, w], or [n, tokens] of several grids. Throws UserError for other shapes than these
/// and [n, tokens] of the model's own grid.
torch::Tensor as_decoded(const torch::Tensor& tokens, const std::vector<TokenGrid>& grids,
                         const std::string& name) {
  const bool several = grids.size() > 1;
  const bool flat = tokens.dim() == 2 && tokens.size(1) == tokens_in(grids);
  if (tokens.numel() == 0) throw UserError("{}: holds no tokens", name);
  if (!flat && (several || tokens.dim() != 3)) {
    throw UserError("{}: tokens of shape [{}], expected {}[n, {}] for the model's {}", name,
                    fmt::join(tokens.sizes().vec(), ", "), several ? "" : "[n, h, w], or ",
                    tokens_in(grids), shown_grids(grids));
  }
  return flat && !several ? tokens.view({-1, grids[0].height, grids[0].width}) : tokens;
}

/// `tokens` are int64; if they were uint64 (`was_uint64`), values beyond int64 became negative.
void check_range(const torch::Tensor& tokens, bool was_uint64, int64_t codes,
                 const std::string& name) {
  const auto wrong = tokens.lt(0).logical_or(tokens.ge(codes));
  if (!wrong.any().item<bool>()) return;
  const auto at = wrong.nonzero()[0];
  const auto index = tokens.masked_select(wrong)[0].item<int64_t>();
  const auto coordinate = [&](int64_t i) { return at[i].item<int64_t>(); };
  throw UserError(
      "{}: image {}, {} has the index {}, but the codes are 0 to {}", name, coordinate(0),
      tokens.dim() == 2 ? fmt::format("token {}", coordinate(1))
                        : fmt::format("row {}, column {}", coordinate(1), coordinate(2)),
      was_uint64 ? fmt::to_string(static_cast<uint64_t>(index)) : fmt::to_string(index), codes - 1);
}

}  // namespace

TokenManifest open_tokens(const fs::path& folder, const Tokenizer& tokenizer, bool force,
                          const std::string& advice) {
  auto manifest = read_token_progress(folder);
  if (!manifest.complete) {
    throw UserError("{}: incomplete ({} so far); finish it with `nsvq tokenize`", folder.string(),
                    count_of(manifest.shards.size(), "shard"));
  }
  require_grids(manifest.settings, *tokenizer->quantizer, folder);
  const auto own = model_sha256(tokenizer);
  const bool other_model = manifest.settings.model_sha256 != own;
  // All shards are checked before the first image is written, so that a damaged one does not leave
  // half of the images behind.
  require_sound(folder, manifest, [&](const TokenShard& shard, const fs::path& path) {
    check_codes(shard, tokenizer->quantizer->codes(), path, other_model);
  });
  // After the shards: there is no point in advice about tokens that cannot be decoded.
  if (!force && other_model) {
    throw UserError("{}: tokens of another model (sha256 {}..., this one has {}...){}",
                    folder.string(), manifest.settings.model_sha256.substr(0, 12),
                    own.substr(0, 12), advice);
  }
  return manifest;
}

void detokenize(
    InferenceSession& session, const fs::path& folder, const TokenManifest& manifest,
    int64_t batch_size, int64_t done,
    const std::function<void(const torch::Tensor&, const std::vector<std::string>&)>& use) {
  const torch::NoGradGuard no_grad;
  int64_t images = 0, before = 0;  // images in all shards, and before the current one
  for (const auto& record : manifest.shards) images += record.images;
  Progress progress("detokenize", images, "images", 30, done);
  for (const auto& record : manifest.shards) {
    const int64_t count = record.images;
    if (before + count <= done) {
      before += count;
      continue;
    }
    const auto shard = read_checked_shard(folder, manifest.settings, record);
    const auto shown = central(shard.tokens, manifest.settings);
    for (int64_t first = done - before; first < count; first += batch_size) {
      const int64_t end = std::min(first + batch_size, count);
      const auto tokens = shown.slice(0, first, end);
      const std::vector<std::string> keys(shard.keys.begin() + first, shard.keys.begin() + end);
      use(pictures_of(session, tokens), keys);
      progress.update(done += end - first);
    }
    before += count;
  }
  progress.finish();
}

bool names_bare_tokens(const std::string& name) {
  return name == kStandardInput || name.ends_with(".npy") || name.ends_with(".safetensors");
}

torch::Tensor read_bare_tokens(const std::string& name, const InferenceSession& session) {
  const auto grids = session.grids(session.config().data.size, session.config().data.size);
  const bool raw = name == kStandardInput;
  auto tokens = raw                      ? read_raw_tokens(tokens_in(grids))
                : name.ends_with(".npy") ? read_npy_tokens(name)
                                         : read_safetensors_tokens(name);
  const auto shown = raw ? "standard input" : name;
  if (!torch::isIntegralType(tokens.scalar_type(), /*includeBool=*/false)) {
    throw UserError("{}: tokens of {}, expected integers", shown,
                    torch::toString(tokens.scalar_type()));
  }
  const bool was_uint64 = tokens.scalar_type() == torch::kUInt64;
  tokens = tokens.to(torch::kInt64);
  tokens = as_decoded(tokens, grids, shown);
  const auto pixels = [&](int64_t count) {
    return static_cast<uint64_t>(count * session.stride());
  };
  if (grids.size() == 1) {
    check_picture_size(pixels(tokens.size(2)), pixels(tokens.size(1)), {}, "tokens for pictures",
                       shown);
  }
  check_range(tokens, was_uint64, session.codes(), shown);
  return tokens;
}

void decode_bare_tokens(InferenceSession& session, const torch::Tensor& tokens, int64_t batch_size,
                        int64_t done,
                        const std::function<void(const torch::Tensor&, int64_t)>& use) {
  const int64_t images = tokens.size(0);
  Progress progress("detokenize", images, "images", 30, done);
  while (done < images) {
    const int64_t end = std::min(done + batch_size, images);
    use(pictures_of(session, tokens.slice(0, done, end)), done);
    progress.update(done = end);
  }
  progress.finish();
}

torch::Tensor read_token_numbers(const std::string& name) {
  auto numbers = name.ends_with(".npy") ? read_npy_tokens(name) : read_safetensors_tokens(name);
  if (torch::isIntegralType(numbers.scalar_type(), /*includeBool=*/false)) return numbers;
  throw UserError("{}: tokens of {}, expected integers", name,
                  torch::toString(numbers.scalar_type()));
}

}  // namespace nsvq
