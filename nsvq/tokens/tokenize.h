#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokens/token_folder.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

/// What of an image is tokenized.
enum class TokenizedParts {
  image,
  image_and_mirror_image,
  ten_crops  ///< of images 1.1 times as large: corners, centre and their mirror images
};

struct TokenizeOptions {
  std::filesystem::path out;
  std::string source;         ///< the source as the user gave it, for the manifest
  int64_t shard_size = 4096;  ///< images of the source in a shard, rounded up to whole batches
  LoaderOptions loader;       ///< images in order, delivered on the model's device
  TokenizedParts parts = TokenizedParts::image;
  WorkPart part;                            ///< the shards that this worker begins with
  std::chrono::seconds claim_timeout{300};  ///< after this time a silent worker's shard is free
};

/// Writes the tokens of all images of a source to a folder of shards with a manifest. Completes the
/// folder of an interrupted call with equal settings. Several processes may fill the same folder at
/// the same time, each making some of the shards; all return when it is complete. Its bytes are
/// those of one uninterrupted call. Loading, encoding and writing run concurrently. Throws
/// UserError if the folder contains tokens with different settings or any other files, and
/// Interrupted between two batches; the shard that was begun is then free for others.
TokenManifest tokenize(InferenceSession& session, std::shared_ptr<const Source> source,
                       const TokenizeOptions& options);

}  // namespace nsvq
