#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "nsvq/dist/group.h"
#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/recipe/dist.h"
#include "nsvq/recipe/run_config.h"

namespace CLI {
class App;
}

namespace nsvq {

// What commands that sample images have in common, whatever the network is.

/// How and where to sample.
struct SamplingArguments {
  std::string model, tokenizer, device = "auto";
  std::string label = "all";
  int64_t seed = 0;
  int64_t batch_size = 64;
  int gpus = 0;
  double timeout = DistConfig().timeout;
};

/// MODEL and --tokenizer.
void declare_sampled_model(CLI::App& app, SamplingArguments& arguments);
/// --class, --seed, --batch-size, --gpus and --timeout; --device is the caller's.
void declare_sampling(CLI::App& app, SamplingArguments& arguments);
/// --count: how many.
void declare_count(CLI::App& app, int64_t& count, int64_t least);
/// What --class names: a class, kAllClasses or kRandomClasses (recipe/classes.h).
int64_t wanted_class(const std::string& text);

/// Does `work` in this process, or in several if --gpus or a launcher asks for it.
using RankWork = std::function<void(const Launch& launch, Group& group)>;
void work_on_ranks(const SamplingArguments& arguments, const RankWork& work);

/// What is made of images by their numbers.
struct Samples {
  /// Rows [end - first, ...] for images [first, end).
  std::function<torch::Tensor(int64_t first, int64_t end)> make;
  int64_t batch = 1;           ///< images of a batch
  std::vector<int64_t> shape;  ///< of a row, without the images
  at::ScalarType type = at::kByte;
};

/// Makes rows of images [first, end), in batches. Ranks make batches in turn, so that a batch holds
/// the same images whatever their number; rank 0 gets all rows in order, on the CPU.
using UseRows = std::function<void(const torch::Tensor& rows, int64_t first)>;
void sample_over_ranks(const Samples& samples, Group& group, int64_t first, int64_t end,
                       const UseRows& use);

/// A trained network with its decoder.
struct SampledModel {
  std::string file;
  RunConfig config;
  c10::Device device = at::kCPU;
  int64_t height = 0, width = 0;  ///< of an image, in pixels
  int64_t batch_size = 0;
  /// Images [first, end) as [images, 3, height, width] in [-1, 1].
  std::function<torch::Tensor(int64_t first, int64_t end)> images;
};

/// Images in bytes [3, height, width].
Samples samples_of(const SampledModel& model);

/// Throws UserError for an --out that cannot be written: FILE.png, FILE.tar or a folder.
void check_sample_output(const std::string& out, bool force);
/// Samples images [0, count) to a picture of all of them, a tar or a folder of pictures 000000.png,
/// ... `settings` is what they depend on; a folder that an equal command left incomplete is
/// completed. Returns how many images were sampled here.
int64_t write_samples(const SampledModel& model, const std::string& out, int64_t count,
                      const ResumableFolder::Settings& settings, Group& group);
/// --out and --force.
void declare_sample_output(CLI::App& app, std::string& out, bool& force,
                           const std::string& others = "");

}  // namespace nsvq
