#include "nsvq/generation/import_generator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/settings/settings_reader.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

constexpr int64_t kUsualSize = 256;   // pixels of an image's side
constexpr int64_t kUsualStride = 16;  // and of a token's, where no tokenizer tells

std::vector<std::string> keys_of(const TensorMap& map) {
  std::vector<std::string> keys;
  for (const auto& [name, tensor] : map) keys.push_back(name);
  return keys;
}

std::vector<std::string> unwrapped_names(const ForeignWeights& held) {
  std::vector<std::string> names;
  for (const auto& [name, shape] : held.shapes) names.push_back(without_wrappers(name));
  return names;
}

const GeneratorLayout& layout_of(const ForeignWeights& held, const std::string& file) {
  const auto* layout = recognise_generator(unwrapped_names(held));
  if (!layout) {
    throw UserError(
        "{}: its layout is none of {}'s generators; a tokenizer is taken by `nsvq import`", file,
        fmt::join(generator_programs(), "'s, "));
  }
  if (!layout->refused.empty()) throw UserError("{}: {}", file, describe_generator(*layout));
  return *layout;
}

/// The tensors of a file by the program's names, in our sizes.
TensorMap read_theirs(const std::filesystem::path& path, const GeneratorLayout& layout,
                      bool averaged) {
  TensorMap theirs;
  for (auto& [name, tensor] : read_foreign_tensors(path, averaged)) {
    const auto bare = without_wrappers(name);
    const auto fits_bare = [&](const auto& pattern) { return fits(pattern, bare); };
    if (std::ranges::any_of(layout.dropped, fits_bare)) continue;
    if (theirs.emplace(bare, tensor).second) continue;
    throw UserError("{}: two tensors are {} without their prefixes", path.string(), quote(bare));
  }
  if (layout.to_our_sizes) layout.to_our_sizes(theirs, path.string());
  return theirs;
}

TensorMap renamed(const TensorMap& tensors, const GeneratorLayout& layout, Side from,
                  const std::string& file) {
  const Renaming rename(layout.rules, from, keys_of(tensors));
  TensorMap all;
  for (const auto& [name, tensor] : tensors) {
    const auto there = rename(name);
    if (!there) {
      throw UserError("{}: the tensor {} has no place in {}", file, quote(name), layout.name);
    }
    all[there->name] = tensor;
  }
  return all;
}

int64_t depth_of(const TensorMap& ours) {
  int64_t depth = 0;
  while (ours.contains(fmt::format("layers.{}.attention.wo.weight", depth))) ++depth;
  return depth;
}

/// The side of the grid in tokens.
int64_t side_of(const GeneratorSizes& sizes, int64_t pixels, const TokenCodec* codec,
                const std::string& file) {
  const int64_t stride = codec ? codec->stride() : kUsualStride;
  const auto told = static_cast<int64_t>(std::llround(std::sqrt(sizes.positions)));
  if (sizes.positions > 0 && told * told != sizes.positions) {
    throw UserError("{}: {} positions make no square grid", file, sizes.positions);
  }
  if (pixels % stride != 0) {
    throw UserError("--size {}: not a multiple of {}, the pixels a token", pixels, stride);
  }
  if (pixels > 0 && told > 0 && pixels / stride != told) {
    throw UserError("--size {}: grids of {}x{}, but {} has {}x{}", pixels, pixels / stride,
                    pixels / stride, file, told, told);
  }
  if (told > 0) return told;
  return (pixels > 0 ? pixels : kUsualSize) / stride;
}

/// The settings that layout and sizes tell, with defaults for all others.
GenerationConfig config_of(const GeneratorLayout& layout, const GeneratorSizes& sizes,
                           const TensorMap& ours, const GeneratorImport& request) {
  GenerationConfig config;
  config.generator.family = layout.family;
  config.generator.width = sizes.width;
  config.generator.hidden = sizes.hidden;
  config.generator.depth = std::max<int64_t>(depth_of(ours), 1);
  config.generator.heads = layout.heads(sizes.width);
  config.generator.registers = sizes.registers;
  config.classes = sizes.classes;
  config.sampling = layout.sampling(sizes.width);
  const auto table = option_table(config);
  SettingsReader reader(table);
  reader.read_overrides(with_sections(request.overrides));
  reader.finish(request.file.string() + ": ");
  if (config.codes > 0 && config.codes != sizes.codes) {
    throw UserError("generator.codes is {}, but {} has {} codes", config.codes,
                    request.file.string(), sizes.codes);
  }
  return config;
}

/// Refuses tensors that the generator has not, and a generator with tensors that are not there.
void check_names(const TensorMap& wanted, const TensorMap& given, const GeneratorLayout& layout,
                 const std::string& file) {
  const Renaming to_theirs(layout.rules, Side::ours, keys_of(wanted));
  const auto first = [&](const TensorMap& of, const TensorMap& among) -> std::string {
    for (const auto& [name, tensor] : of) {
      if (among.contains(name)) continue;
      const auto there = to_theirs(name);
      return quote(there ? there->name : name) + " " + shown_sizes(tensor.sizes().vec());
    }
    return "";
  };
  const auto missing = first(wanted, given), extra = first(given, wanted);
  if (!missing.empty()) throw UserError("{}: the tensor {} is missing", file, missing);
  if (!extra.empty()) throw UserError("{}: the tensor {} is unexpected", file, extra);
  for (const auto& [name, tensor] : wanted) {
    if (tensor.sizes() == given.at(name).sizes()) continue;
    const auto there = to_theirs(name);
    throw UserError("{}: the tensor {} is of sizes {}, where {} are expected", file,
                    quote(there ? there->name : name), shown_sizes(given.at(name).sizes().vec()),
                    shown_sizes(tensor.sizes().vec()));
  }
}

std::string described(const LoadedGenerator& made) {
  const auto& config = made.config.generator;
  return fmt::format(
      "generator: family {}, width {}, {}, {}, {} parameters; {}x{} tokens of {}, {}",
      config.family, config.width, count_of(config.depth, "block"), count_of(config.heads, "head"),
      parameter_count(*made.generator), made.grid.height, made.grid.width,
      count_of(made.grid.codes, "code"),
      made.grid.classes > 0 ? fmt::format("{} classes", made.grid.classes) : "without classes");
}

}  // namespace

const GeneratorLayout* generator_layout_of(const std::filesystem::path& file) {
  return recognise_generator(unwrapped_names(read_foreign_shapes(file)));
}

ImportedGenerator import_generator(const GeneratorImport& request, const TokenCodec* codec) {
  const auto files = weights_files(request.file);
  const auto& path = files.front();
  const auto file = path.string();
  const auto held = read_foreign_shapes(path);
  const auto& layout = layout_of(held, file);
  const bool averaged = !held.average.empty() && !request.last;
  const auto ours = renamed(read_theirs(path, layout, averaged), layout, Side::theirs, file);
  const auto sizes = layout.sizes(ours, file);
  ImportedGenerator imported;
  auto& made = imported.generator;
  made.config = config_of(layout, sizes, ours, request);
  const int64_t side = side_of(sizes, request.size, codec, file);
  made.grid = {side, side, sizes.codes, made.config.classes};
  made.file = path;
  if (codec && codec->codes() != sizes.codes) {
    throw UserError("{}: a generator of {} codes, but {} has {}", file, sizes.codes, codec->name(),
                    codec->codes());
  }
  if (codec) made.tokenizer = codec->reference();
  made.config.tokenizer = made.tokenizer.path;
  made.config.data.size = side * (codec ? codec->stride() : kUsualStride);
  check_sampling(made.config.sampling, made.config.generator, made.grid);
  {
    const SeedGuard apart;
    made.generator = make_generator(made.config.generator, made.grid);
  }
  check_names(named_tensors(*made.generator), ours, layout, file);
  load_tensors(*made.generator, ours, file);
  require_finite(named_tensors(*made.generator), file);
  made.generator->eval();
  imported.notes = {
      fmt::format("{}: {}{}", file, layout.name,
                  held.part.empty() ? "" : fmt::format(", in its {}", held.part)),
      averaged ? fmt::format("taken: the moving average ({}); --last takes the last weights",
                             held.average)
               : std::string("taken: the last weights"),
      described(made)};
  return imported;
}

TensorMap with_their_names(const LoadedGenerator& generator, const std::string& program) {
  const auto& layouts = generator_layouts();
  const auto found = std::ranges::find(layouts, program, &GeneratorLayout::program);
  TORCH_CHECK(found != layouts.end() && found->refused.empty(), "no program ", program);
  const auto& config = generator.config.generator;
  const auto from = generator.file.string();
  if (config.family != found->family) {
    throw UserError("{}: of family {}, but {} has family {}", from, config.family, program,
                    found->family);
  }
  if (config.head != "full") {
    throw UserError("{}: generator.head is {}, but {} has a logit for each code", from, config.head,
                    program);
  }
  if (generator.grid.classes == 0) {
    throw UserError("{}: knows no classes, but {}'s generator is told them", from, program);
  }
  if (const auto why = found->why_not(config, generator.grid); !why.empty()) {
    throw UserError("{}: {} has no such network: {}", from, program, why);
  }
  auto theirs = renamed(named_tensors(*generator.generator), *found, Side::ours, from);
  for (auto& [name, tensor] : theirs) tensor = tensor.detach();
  if (found->to_their_sizes) found->to_their_sizes(theirs);
  for (auto& [name, tensor] : theirs) tensor = tensor.contiguous();
  return theirs;
}

}  // namespace nsvq
