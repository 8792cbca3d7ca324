#pragma once

#include <memory>
#include <string>

#include "nsvq/data/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/checkpoint.h"

namespace CLI {
class App;
}

namespace nsvq {

/// What every command that runs a trained model on images takes.
struct ModelArguments {
  std::string model;
  std::string data;
  std::string device = "auto";
  int64_t batch_size = 0;  ///< 0: the command chooses
};

void declare_model_arguments(CLI::App& app, ModelArguments& arguments);
/// The same without the model.
void declare_data_arguments(CLI::App& app, ModelArguments& arguments);

/// A trained model, with settings for this machine in place of those of the one that trained it.
LoadedModel load_for_use(const std::string& path);

/// A model on its device and the images to run it on.
struct ModelOnData {
  LoadedModel model;
  c10::Device device;
  std::shared_ptr<const Source> source;
  LoaderOptions options;
};

ModelOnData open(const ModelArguments& arguments, const Group& group);

}  // namespace nsvq
