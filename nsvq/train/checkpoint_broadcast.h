#pragma once

#include <optional>

#include "nsvq/dist/group.h"
#include "nsvq/runs/checkpoint.h"

namespace nsvq {

/// Rank 0's checkpoint on every rank, so that only rank 0 reads files; nothing if it has none.
std::optional<Checkpoint> broadcast_checkpoint(std::optional<Checkpoint> checkpoint, Group& group);

}  // namespace nsvq
