#include "nsvq/tokenizer/exchange/model_card.h"

#include <fmt/ranges.h>

#include <cmath>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/tokenizer/exchange/export_model.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kWeights = "model.safetensors";

/// Text of a file within a table of Markdown.
std::string in_cell(const std::string& text) {
  std::string cell;
  for (const char c : printable(text)) {
    if (c == '|' || c == '<' || c == '`') cell += '\\';
    cell += c;
  }
  return cell;
}

/// The figures of `nsvq eval --json` as a table.
std::string figures_table(const fs::path& path) {
  const auto json = read_json(path);
  std::string rows;
  for (const auto& kind : metric_kinds()) {
    const auto value = json.find(kind.name);
    if (value == json.end() || !value->is_number()) continue;
    const auto& [title, unit] = std::tie(kind.display.title, kind.display.unit);
    rows +=
        fmt::format("| {} | {}{}{} |\n", title, format_figure(value->get<double>(), kind.display),
                    unit.empty() ? "" : " ", unit);
  }
  if (rows.empty()) {
    throw UserError("--eval {}: holds no figures of `nsvq eval --json`", path.string());
  }
  const auto data = json.find("data"), images = json.find("images");
  std::string of = "of `nsvq eval`";
  if (images != json.end() && images->is_number_integer()) {
    of += fmt::format(" on {}", count_of(images->get<int64_t>(), "image"));
  }
  if (data != json.end() && data->is_string()) of += ", " + in_cell(data->get<std::string>());
  return fmt::format("Figures {}.\n\n| figure | value |\n|---|---|\n{}", of, rows);
}

/// How many bits a token holds: 14 for 16384 codes.
double bits_of(int64_t codes) { return std::log2(static_cast<double>(codes)); }

std::string about_tokens(const LoadedModel& model) {
  const auto& config = model.config;
  const int64_t codes = model.tokenizer->quantizer->codes();
  if (codes == 0) return "The model is continuous: it has latents and no tokens.\n";
  const int64_t size = config.data.size, stride = config.model.stride(), grid = size / stride;
  const auto grids = model.tokenizer->quantizer->grids(grid, grid);
  if (grids.size() > 1) {
    return fmt::format(
        "A token is a whole number from 0 to {}. An image of {}x{} pixels has {} of {:.4g} bits "
        "each, one\nscale after the other, each row by row; `quantizer.{}.scales` are the sides of "
        "their grids.\n",
        codes - 1, size, size, shown_grids(grids), bits_of(codes), config.quantizer.type);
  }
  auto text = fmt::format(
      "A token is a whole number from 0 to {}. Each stands for {}x{} pixels: an image of H x W "
      "pixels\n(multiples of {}) has H/{} x W/{} tokens, counted row by row from the top left, so "
      "{}x{} pixels\nmake {}x{} tokens, {} in all, of {:.4g} bits each ({:.4g} bits an image).\n",
      codes - 1, stride, stride, stride, stride, stride, size, size, grid, grid, grid * grid,
      bits_of(codes), bits_of(codes) * static_cast<double>(grid * grid));
  if (config.quantizer.type == "lfq") {
    text += "Bit k of a token (of value 2^k) is set where channel k of the latent is above 0.\n";
  } else {
    text += fmt::format("The codes are vectors of {} channels (`quantizer.type` {}).\n",
                        config.model.latent_dim, config.quantizer.type);
  }
  return text;
}

std::string about_settings(const TokenizerConfig& config) {
  const auto& network = config.model;
  return fmt::format(
      "| setting | value |\n|---|---|\n"
      "| `model.family` | {} |\n| `model.width`, `model.multipliers`, `model.blocks` | {}, [{}], "
      "{} "
      "|\n| `model.latent_dim` | {} |\n| `quantizer.type` | {} |\n| `data.size` | {} |\n\n"
      "`config.json` has all settings. Images are resized, bilinear and antialiased, to the "
      "smallest "
      "size that\ncovers the square of `data.size`, and cropped at the centre; pixels are in "
      "[-1, 1].\n",
      network.family, network.width, fmt::join(network.multipliers, ", "), network.blocks,
      network.latent_dim, config.quantizer.type, config.data.size);
}

}  // namespace

std::vector<fs::path> files_of_card(const fs::path& folder) {
  return {folder / kWeights, folder / "config.json", folder / "load_model.py",
          folder / "README.md"};
}

std::string model_card(const LoadedModel& model, const std::string& name, const fs::path& figures) {
  const auto evaluation = figures.empty()
                              ? "No figures were given (`nsvq export --eval FILE.json`).\n"
                              : figures_table(figures);
  return fmt::format(R"(---
library_name: nsvq
tags:
- image-tokenization
- vector-quantization
---
# {}
A tokenizer of images, made by nsvq {}: an encoder and a quantizer turn an image into tokens, a
decoder turns tokens into an image.

## Use
```python
from load_model import load                                # load_model.py of this folder
tokenizer = load()                                         # needs torch, safetensors and Pillow
tokens = tokenizer.encode(tokenizer.read("photo.jpg"))     # [1, h, w]
image = tokenizer.decode(tokens)                           # [1, 3, H, W] in [-1, 1]
```
This file has the tokens of quantizers that choose the nearest code, and of others the networks.
With nsvq: `nsvq tokenize {} --data photos/ --out tokens/`, and `detokenize`, `reconstruct` and
`eval`.

## Tokens
{}
## Settings
{}
## Evaluation
{})",
                     in_cell(name), kVersion, kWeights, about_tokens(model),
                     about_settings(model.config), evaluation);
}

void write_card(const LoadedModel& model, const fs::path& folder, const fs::path& figures) {
  const auto files = files_of_card(folder);
  const auto name = fs::absolute(folder).lexically_normal();
  const auto card = model_card(
      model, (name.has_filename() ? name : name.parent_path()).filename().string(), figures);
  write_model(files[0], named_tensors(*model.tokenizer), model.config);
  write_text(files[1], exported_settings(model).dump(1) + "\n");
  write_text(files[2], exported_loader());
  write_text(files[3], card);
}

}  // namespace nsvq
