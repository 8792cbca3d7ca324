#include "nsvq/train/checkpoint_broadcast.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace nsvq {

using nlohmann::json;

namespace {

json shapes_of(const TensorMap& tensors) {
  json shapes = json::object();
  for (const auto& [name, tensor] : tensors) {
    shapes[name] = {{"type", static_cast<int>(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()}};
  }
  return shapes;
}

TensorMap empty_tensors(const json& shapes) {
  TensorMap tensors;
  for (const auto& [name, one] : shapes.items()) {
    const auto type = static_cast<at::ScalarType>(one.at("type").get<int>());
    tensors[name] = at::empty(one.at("shape").get<std::vector<int64_t>>(), type);
  }
  return tensors;
}

std::string describe(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return json{{"present", false}}.dump();
  return json{{"present", true},
              {"state", state_to_json(checkpoint->state, checkpoint->logs)},
              {"metadata", checkpoint->model.metadata},
              {"model", shapes_of(checkpoint->model.tensors)},
              {"training", shapes_of(checkpoint->training)}}
      .dump();
}

}  // namespace

std::optional<Checkpoint> broadcast_checkpoint(std::optional<Checkpoint> checkpoint, Group& group) {
  if (group.size() == 1) return checkpoint;
  const auto told = json::parse(broadcast_text(group, describe(checkpoint)));
  if (!told.at("present").get<bool>()) return std::nullopt;
  if (!group.leads()) {
    auto [state, logs] = state_from_json(told.at("state"), "rank 0's checkpoint");
    checkpoint = Checkpoint{state, logs, {}, empty_tensors(told.at("training"))};
    checkpoint->model.tensors = empty_tensors(told.at("model"));
    checkpoint->model.metadata = told.at("metadata").get<std::map<std::string, std::string>>();
  }
  for (const auto* tensors : {&checkpoint->model.tensors, &checkpoint->training}) {
    for (const auto& [name, tensor] : *tensors) group.broadcast({tensor});
  }
  return checkpoint;
}

}  // namespace nsvq
