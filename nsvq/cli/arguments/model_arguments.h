#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/tokenizer/inference_session.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nsvq {

/// A trained model on the command line.
struct NamedModel {
  std::string name;   ///< a run, a checkpoint or a file
  bool best = false;  ///< the run's checkpoint of its best evaluation

  /// What to open. Throws UserError where a best checkpoint is asked for and none is marked.
  std::filesystem::path path() const;
};

/// Arguments of every command that runs a trained model on images.
struct ModelArguments {
  NamedModel model;
  Sources data;
  int64_t limit = 0;  ///< the first so many images; 0: all
  std::string device = "auto";
  int64_t batch_size = 0;           ///< 0 if not given: the command chooses
  bool on_training_images = false;  ///< allowed to be judged by
};

/// MODEL and --best.
void declare_model(CLI::App& app, NamedModel& model);
/// --data, which takes several sources.
CLI::Option* declare_data(CLI::App& app, Sources& data, const std::string& help);
void declare_limit(CLI::App& app, int64_t& limit);
void declare_batch_size(CLI::App& app, int64_t& batch_size, const std::string& help);

/// --data, --limit, --device and --batch-size.
void declare_data_arguments(CLI::App& app, ModelArguments& arguments);
/// These and the model.
void declare_model_arguments(CLI::App& app, ModelArguments& arguments);

/// --on-training-images.
void declare_on_training_images(CLI::App& app, ModelArguments& arguments);

struct ModelOnData;

/// Arguments of commands that fill a folder with shards.
struct ShardArguments {
  ModelArguments model;
  std::string out, classes;
  int64_t shard_size = 0;  ///< 0 if not given
};

/// --classes and --shard-size.
void declare_shard_arguments(CLI::App& app, ShardArguments& arguments);

/// Images of a shard and of a batch.
struct ShardSizes {
  int64_t shard = 0, batch = 0;
};

/// The sizes that the arguments ask for. Without --shard-size or --batch-size they are those of the
/// folder, where an earlier command has `begun` it; else a shard has at most a sixteenth of the
/// images, so that a killed command loses little: a power of two from 256 to 4,096. All processes
/// that fill one folder come to the same.
ShardSizes choose_shard_sizes(const ShardArguments& arguments, const ModelOnData& opened,
                              const TransformOptions& transform,
                              const std::optional<ShardSizes>& begun);

/// The sources of --data as inputs for check_output_files.
std::vector<NamedFile> named_sources(const Sources& data);

/// An inference session and the images to run it on.
struct ModelOnData {
  /// `launch`: this process among several that share the images, which decides its device.
  explicit ModelOnData(const ModelArguments& arguments, const Launch& launch = {});

  /// Whether the model was trained on images of --data. Throws UserError if so, unless that is
  /// allowed.
  bool judged_on_training_images(const ModelArguments& arguments) const;

  InferenceSession session;
  std::shared_ptr<const Source> source;
  LoaderOptions options;  ///< images in order, resized and cropped as in the model's training
};

/// The images to write in shards, with the classes of --classes.
std::shared_ptr<const Source> images_for_shards(const ShardArguments& arguments,
                                                const ModelOnData& opened);

/// TokenizeOptions or CacheLatentsOptions of these arguments, but for the ShardSizes.
template <typename Options>
Options shard_options(const ShardArguments& arguments, const ModelOnData& opened) {
  Options options;
  options.out = arguments.out;
  options.source = arguments.model.data.text();
  options.loader = opened.options;
  options.loader.on_error = OnError::skip;  // broken images are listed in the manifest
  return options;
}

/// Throws UserError for a name that is something else than a folder of `nsvq tokenize`, such as a
/// tar of images, a picture, a run or a model: it says what that is and what to type. Names of
/// which nothing can be told pass; opening them says more.
void require_tokens_named(const std::string& name);

}  // namespace nsvq
