#pragma once

#include <cstdint>
#include <string>

#include "nsvq/quantizers/quantizer_config.h"

namespace nsvq {

// What to lower when memory runs out: it depends on what did not fit. A command notes what it
// allocates, in the order in which it does; the notes hold for the process, which runs one command.

/// The table of vectors [rows, columns] in fp32 that a quantizer keeps, and the settings that it
/// depends on.
struct NotedTable {
  std::string name;
  int64_t rows = 0, columns = 0;
  std::string settings;
};
void note_table(NotedTable table);
/// The table of a recipe's quantizer, if it has one.
void note_table_of(const QuantizerConfig& config, int64_t latent_dim);

/// From now on the weights of networks are made, whose size the settings decide.
void note_networks(const std::string& settings);

/// From now on images are computed on: the command's batch size and what sets it ("--batch-size ");
/// `others` are more settings that save memory.
void note_batch_size(const std::string& setting, int64_t size, const std::string& others = "");

/// An out-of-memory error in one line, with the setting to lower for the tensor that did not fit.
std::string explain_out_of_memory(const std::string& error);

}  // namespace nsvq
