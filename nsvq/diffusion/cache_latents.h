#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

struct CacheLatentsOptions {
  std::filesystem::path out;
  std::string source;          ///< the source's specification, for the manifest
  bool named_classes = false;  ///< numbered by a list of names, not by the images' folders
  int64_t shard_size = 4096;   ///< images of the source in a shard, rounded up to whole batches
  LoaderOptions loader;        ///< images in order, delivered on the model's device
};

/// Writes the encoder's output for all images of a source to a folder of shards with a manifest. If
/// an earlier call with equal settings was interrupted or killed, the missing shards are added.
/// Throws UserError if the folder contains anything else, and for an image whose latents are not
/// finite.
LatentManifest cache_latents(InferenceSession& session, std::shared_ptr<const Source> source,
                             const CacheLatentsOptions& options);

}  // namespace nsvq
