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
  std::string source;         ///< the source's specification, for the manifest
  int64_t shard_size = 4096;  ///< images of the source in a shard, rounded up to whole batches
  LoaderOptions loader;       ///< images in order, delivered on the model's device
};

/// Writes the tokens of all images of a source to a folder of shards with a manifest. If an earlier
/// call with equal settings was interrupted, the missing shards are added, and the result is byte
/// for byte that of an uninterrupted call. Loading, encoding and writing run concurrently. Throws
/// UserError if the folder contains other tokens or other files.
TokenManifest tokenize(InferenceSession& session, std::shared_ptr<const Source> source,
                       const TokenizeOptions& options);

}  // namespace nsvq
