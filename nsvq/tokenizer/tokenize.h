#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nsvq/data/loader.h"
#include "nsvq/io/token_manifest.h"
#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

struct TokenizeOptions {
  std::filesystem::path out;
  std::string source;         ///< as it was given, for the manifest
  int64_t shard_size = 4096;  ///< images of the source in a shard, rounded up to whole batches
  LoaderOptions loader;       ///< images in order, delivered on the model's device
};

/// Writes the tokens of all images of a source to a folder: shards and their manifest. A folder
/// that holds some of the same shards already gets the others, and is then the same, byte for byte,
/// as if made at once. Reading images, encoding and writing run beside one another. Throws
/// UserError for a folder of other tokens or other files.
TokenManifest tokenize(InferenceSession& session, std::shared_ptr<const Source> source,
                       const TokenizeOptions& options);

}  // namespace nsvq
