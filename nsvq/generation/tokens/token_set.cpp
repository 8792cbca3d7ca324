#include "nsvq/generation/tokens/token_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npy.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_check.h"

namespace nsvq {

namespace {

TokenSet read_folder_set(const TokenFiles& files, const TokenCodec* codec) {
  const auto& folder = files.tokens;
  const auto manifest = codec ? open_tokens(folder, codec->model().tokenizer, /*force=*/false)
                              : open_complete_tokens(folder);
  const auto& settings = manifest.settings;
  if (!settings.scales.empty() || settings.groups > 1) {
    throw UserError("{}: tokens of several {}, where a generator learns a single grid", folder,
                    settings.groups > 1 ? "groups" : "scales");
  }
  auto all = read_all_tokens(folder, manifest, files.mapped);
  return {{all.tokens, std::move(all.classes), std::move(all.keys), std::move(all.class_names)},
          manifest.settings.codes,
          std::move(all.shards)};
}

std::vector<int64_t> to_vector(const torch::Tensor& numbers) {
  const auto wide = numbers.to(at::kLong).contiguous();
  return {wide.data_ptr<int64_t>(), wide.data_ptr<int64_t>() + wide.numel()};
}

std::vector<int64_t> parse_class_lines(const std::string& file) {
  std::vector<int64_t> classes;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const auto number = parse_decimal(line);
    if (!number) {
      throw UserError("{}: line {} is {}, expected the number of a class", file, classes.size() + 1,
                      quote(line));
    }
    classes.push_back(*number);
  }
  return classes;
}

torch::Tensor parse_class_array(const std::string& file) {
  try {
    return parse_npy(read_file(file), NpyNumbers::integer);
  } catch (const UserError& error) {
    throw UserError("{}: {}", file, error.what());
  }
}

std::vector<int64_t> read_classes(const TokenFiles& files, int64_t images) {
  const auto& file = files.classes;
  std::vector<int64_t> classes(static_cast<size_t>(images), -1);
  if (file.ends_with(".npy")) {
    classes = to_vector(parse_class_array(file));
  } else if (!file.empty()) {
    classes = parse_class_lines(file);
  } else if (files.tokens.ends_with(".safetensors")) {
    const auto tensors = read_safetensors(files.tokens).tensors;
    const auto found = tensors.find("classes");
    if (found != tensors.end()) classes = to_vector(found->second);
  }
  if (std::ssize(classes) == images) return classes;
  throw UserError("{}: {} classes for {} images", file.empty() ? files.tokens : file,
                  classes.size(), images);
}

/// The shape that tokens [n, length] have as grids.
std::vector<int64_t> grids_of_rows(const torch::Tensor& tokens, const TokenCodec* codec,
                                   const std::string& file) {
  const int64_t length = tokens.size(1);
  if (!codec) return {-1, 1, length};
  const int64_t side = codec->usual_side();
  if (length == side * side) return {-1, side, side};
  throw UserError("{}: {} tokens an image, but images of {} have {}x{}", file, length,
                  codec->name(), side, side);
}

TokenSet read_file_set(const TokenFiles& files, const TokenCodec* codec) {
  const auto& file = files.tokens;
  auto tokens = read_token_numbers(file);
  if (tokens.numel() == 0) throw UserError("{}: holds no tokens", file);
  if (tokens.dim() == 2) tokens = tokens.view(grids_of_rows(tokens, codec, file));
  if (tokens.dim() != 3) {
    throw UserError("{}: tokens of shape [{}], expected [n, h, w] or [n, length]", file,
                    fmt::join(tokens.sizes().vec(), ", "));
  }
  // Numbers beyond int64 become negative.
  const auto wide = tokens.to(at::kLong);
  const auto least = wide.min().item<int64_t>(), most = wide.max().item<int64_t>();
  if (least < 0 || most >= int64_t{1} << 30) {
    throw UserError("{}: holds the token {}, expected 0 to {}", file, least < 0 ? least : most,
                    (int64_t{1} << 30) - 1);
  }
  TokenSet set;
  set.images.data = wide.to(at::kInt);
  set.images.classes = read_classes(files, wide.size(0));
  for (int64_t i = 0; i < wide.size(0); ++i) set.images.keys.push_back(std::to_string(i));
  return set;
}

}  // namespace

TokenFiles training_tokens(const GenerationConfig& config) {
  return {"generator.tokens", config.tokens, config.token_classes, config.tokens_in == "files"};
}

TokenFiles validation_tokens(const GenerationConfig& config) {
  return {"generator.val_tokens", config.val_tokens, config.val_token_classes};
}

TokenSet read_token_set(const TokenFiles& files, const TokenCodec* codec) {
  try {
    const bool file = names_bare_tokens(files.tokens);
    std::error_code ignored;
    if (!file && std::filesystem::is_regular_file(files.tokens, ignored)) {
      throw UserError("{}: neither a folder of `nsvq tokenize` nor a .npy or .safetensors file",
                      files.tokens);
    }
    if (!file && !files.classes.empty()) {
      throw UserError("{}: a folder, which holds its own classes, but {} is named too",
                      files.tokens, files.classes);
    }
    if (file && files.mapped) {
      throw UserError("{}: generator.tokens_in files is for folders; leave it memory",
                      files.tokens);
    }
    return file ? read_file_set(files, codec) : read_folder_set(files, codec);
  } catch (const UserError& error) {
    throw UserError("{}: {}", files.key, error.what());
  }
}

GridShape grid_of(const TokenSet& set, const GenerationConfig& config, const TokenFiles& files,
                  const TokenCodec* codec) {
  const int64_t known = codec ? codec->codes() : set.codes;
  if (known > 0 && config.codes > 0 && config.codes != known) {
    throw UserError("generator.codes is {}, but {} has {} codes", config.codes,
                    codec ? codec->name() : files.tokens, known);
  }
  GridShape grid{set.height(), set.width(), std::max(known, config.codes), config.classes};
  if (grid.codes == 0) grid.codes = set.images.data.max().item<int64_t>() + 1;
  require_grid(set, grid, files, codec ? codec->name() : "generator.codes");
  return grid;
}

void require_grid(const TokenSet& set, const GridShape& grid, const TokenFiles& files,
                  const std::string& grids_of) {
  const auto from = files.key + ": " + files.tokens;
  if (set.height() != grid.height || set.width() != grid.width) {
    throw UserError("{}: grids of {}x{}, but those of {} are {}x{}", from, set.height(),
                    set.width(), grids_of, grid.height, grid.width);
  }
  if (set.mapped() && set.codes <= grid.codes) return;  // by which its shards were checked
  const auto largest = set.mapped() ? set.codes - 1 : set.images.data.max().item<int64_t>();
  if (largest < grid.codes) return;
  throw UserError("{}: holds the token {}, but by {} there are {} codes, 0 to {}", from, largest,
                  grids_of, grid.codes, grid.codes - 1);
}

torch::Tensor drawn_variant(const torch::Tensor& tokens, const torch::Tensor& seeds) {
  if (tokens.dim() == 3) return tokens;
  constexpr int64_t draw = 0x76617269;  // apart from those of a generator's loss
  const int64_t variants = tokens.size(1);
  const auto chosen = (uniform_rows(seeds, draw, 1).squeeze(1) * static_cast<double>(variants))
                          .to(at::kLong)
                          .clamp_max(variants - 1);
  const auto index = chosen.view({-1, 1, 1, 1}).expand({-1, 1, tokens.size(2), tokens.size(3)});
  return tokens.gather(1, index).squeeze(1);
}

}  // namespace nsvq
