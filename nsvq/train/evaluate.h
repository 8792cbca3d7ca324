#pragma once

#include <map>
#include <string>

#include "nsvq/data/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/report/grid.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// The loader that evaluation uses on a source: images in order, short side resized, centre crop.
LoaderOptions evaluation_options(const Config& config, const Group& group);

/// All metrics of a model over what the loader gives. Throws UserError if that is nothing.
std::map<std::string, double> evaluate(Tokenizer& model, Loader& loader, Group& group,
                                       c10::Device device, const std::string& title);

/// Images [B, 3, H, W] above their reconstructions.
Image sample_grid(Tokenizer& model, const torch::Tensor& images);

}  // namespace nsvq
