#include "nsvq/dist/group.h"

#include <cstdlib>
#include <string>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

class SingleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(const std::vector<torch::Tensor>& /*tensors*/) override {}
  void broadcast(const std::vector<torch::Tensor>& /*tensors*/) override {}
};

}  // namespace

std::shared_ptr<Group> make_group() {
  const char* world = std::getenv("WORLD_SIZE");
  if (world && std::string(world) != "1") {
    // Otherwise every process would train a model of its own and write to one run's folder.
    throw UserError("WORLD_SIZE is {}, but nsvq trains in one process; start it without torchrun",
                    world);
  }
  return std::make_shared<SingleGroup>();
}

}  // namespace nsvq
