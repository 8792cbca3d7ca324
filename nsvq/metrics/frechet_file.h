#pragma once

#include <filesystem>

#include "nsvq/metrics/frechet.h"

namespace nsvq {

/// Statistics in the format of pytorch-fid: an .npz file with `mu` [C] and `sigma` [C, C]. Ours
/// hold `image_count` [1] and `image_size` [1] too. Writing is atomic and throws RunError. Reading
/// throws UserError, naming the file, for anything else than finite numbers of these shapes.
void write_gaussian(const std::filesystem::path& path, const Gaussian& gaussian);
Gaussian read_gaussian(const std::filesystem::path& path);

}  // namespace nsvq
