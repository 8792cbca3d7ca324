#include "nsvq/dist/group.h"

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/dist/nccl_group.h"

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

std::shared_ptr<Group> make_single_group() { return std::make_shared<SingleGroup>(); }

std::shared_ptr<Group> make_group(const Launch& launch, const GroupOptions& options,
                                  OnLostRank on_lost) {
  const bool nccl = options.backend == "nccl";
  if (nccl && !options.device.is_cuda()) {
    throw UserError("dist.backend: nccl is for GPUs, and this run is on a CPU; use auto or gloo");
  }
  // One process uses NCCL only if that is asked for by name: its collectives run, without an
  // effect.
  const auto base = launch.alone() ? make_single_group()
                                   : make_gloo_group(launch, options.timeout, std::move(on_lost));
  if (options.backend == "gloo" || !options.device.is_cuda()) return base;
  if (launch.alone() && !nccl) return base;
  const auto reason = why_no_nccl(*base, options.device);
  if (reason.empty()) return make_nccl_group(base, options.device);
  if (nccl) throw UserError("dist.backend: nccl cannot be used: {}; use auto or gloo", reason);
  log("dist.backend: {}, so gradients travel by Gloo, through the host's memory", reason);
  return base;
}

torch::Tensor gather(Group& group, const torch::Tensor& tensor) {
  auto shape = tensor.sizes().vec();
  shape.insert(shape.begin(), group.size());
  const auto all = at::zeros(shape, tensor.options());
  all[group.rank()].copy_(tensor);
  group.sum({all});  // one value and zeros: exact
  return all;
}

std::function<void(const torch::Tensor&)> mean_over(Group* group) {
  if (!group || group->size() == 1) return nullptr;
  return [group](const torch::Tensor& tensor) {
    group->sum({tensor});
    tensor.div_(group->size());
  };
}

std::string broadcast_text(Group& group, const std::string& text) {
  return text_of_rank(group, 0, text);
}

std::string text_of_rank(Group& group, int rank, const std::string& text) {
  const bool own = group.rank() == rank;
  const auto length = at::tensor({own ? static_cast<int64_t>(text.size()) : 0}, at::kLong);
  group.sum({length});
  const auto bytes = at::zeros({length.item<int64_t>()}, at::kByte);
  if (own) std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  if (bytes.numel() > 0) group.sum({bytes});  // one text and zeros
  const auto* first = bytes.data_ptr<uint8_t>();
  return std::string(first, first + bytes.numel());
}

}  // namespace nsvq
