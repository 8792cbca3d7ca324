#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/launch.h"
#include "nsvq/tokenizer/inference_session.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nsvq {

/// Arguments of every command that runs a trained model on images.
struct ModelArguments {
  std::string model;
  bool best = false;  ///< of a run, the checkpoint of its best evaluation
  Sources data;
  std::string device = "auto";
  int64_t batch_size = 0;  ///< 0 if not given: the command chooses
};

void declare_model_arguments(CLI::App& app, ModelArguments& arguments);
/// Declares --data, which takes several sources.
CLI::Option* declare_data(CLI::App& app, Sources& data, const std::string& help);
/// Declares --best. `model_path` is then what to open for the model that was named.
void declare_best(CLI::App& app, bool& best);
std::filesystem::path model_path(const std::string& model, bool best);

/// Declares the arguments other than the model.
void declare_data_arguments(CLI::App& app, ModelArguments& arguments);

/// An inference session and the images to run it on.
struct ModelOnData {
  /// `launch`: this process among several that share the images; its device is by its number.
  explicit ModelOnData(const ModelArguments& arguments, const Launch& launch = {});

  InferenceSession session;
  std::shared_ptr<const Source> source;
  LoaderOptions options;  ///< images in order, resized and cropped as in the model's training
};

}  // namespace nsvq
