#pragma once

#include <filesystem>
#include <string>

#include "nsvq/core/precision.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

// A trained tokenizer that another network is trained on, and stays as it is.

/// The tokenizer that the setting `key` names, with settings for this machine. Throws UserError
/// naming the key.
LoadedModel load_frozen_tokenizer(const std::string& path, const std::string& key);
/// Moves it to a device, without gradients.
void freeze_on(LoadedModel& model, c10::Device device);

/// By which a network knows its tokenizer.
struct TokenizerReference {
  std::string path;    ///< where it was, absolute
  std::string sha256;  ///< of its weights
};

/// The name of the folder beside an exported network that holds its tokenizer.
inline constexpr auto kExportedTokenizer = "tokenizer";

/// The tokenizer of the network in `file`: `named` or, if that is empty, the one beside the file
/// (an exported folder) or where training found it. Throws UserError that names all that was looked
/// for.
LoadedModel find_tokenizer(const std::filesystem::path& file, const TokenizerReference& reference,
                           const std::string& named);

/// Throws UserError unless the tokenizer that the setting `key` names, of these weights, is the one
/// that the run in `from` was trained on.
void require_tokenizer(const TokenizerReference& named, const TokenizerReference& trained_on,
                       const std::string& key, const std::string& from);

/// Throws UserError unless a tokenizer that was opened to sample is that of the network in `file`.
void require_tokenizer(const TokenizerReference& opened, const TokenizerReference& trained_on,
                       const std::filesystem::path& file);

/// Writes the tokenizer and its settings to the folder kExportedTokenizer of a folder.
void export_frozen_tokenizer(const LoadedModel& tokenizer, const std::filesystem::path& folder);

/// Torch's flags for sampling by a trained network; `threads` 0: as many as this process may use.
TorchSettings sampling_torch_settings(const RunConfig& config, c10::Device device, int64_t threads);

}  // namespace nsvq
