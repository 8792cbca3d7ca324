#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/layouts/layout.h"
#include "nsvq/generation/tokens/token_codec.h"

namespace nsvq {

/// What is to be made of another program's file of weights.
struct GeneratorImport {
  std::filesystem::path file;          ///< a folder will do
  std::vector<std::string> overrides;  ///< key=value
  int64_t size = 0;   ///< side of the images in pixels; 0: what the file tells, or 256
  bool last = false;  ///< the last weights, although there is their moving average
};

struct ImportedGenerator {
  LoadedGenerator generator;
  std::vector<std::string> notes;  ///< what was taken and dropped, a line each
};

/// A generator of such weights, on the CPU; its tokens are `codec`'s, which may be null. Throws
/// UserError for a layout that is refused or unknown, for another number of codes than the
/// tokenizer's, and naming the tensors that are unexpected, missing or of another shape.
ImportedGenerator import_generator(const GeneratorImport& request, const TokenCodec* codec);

/// The layout of a file of another program, if it is that of a generator; else null. Throws
/// UserError for a file that cannot be read.
const GeneratorLayout* generator_layout_of(const std::filesystem::path& file);

/// A generator's tensors by the names of a program, in its sizes. Throws UserError where the
/// program has no such network.
TensorMap with_their_names(const LoadedGenerator& generator, const std::string& program);

}  // namespace nsvq
