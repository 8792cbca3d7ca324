#include "nsvq/dist/group.h"

#include <optional>
#include <utility>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"

namespace nsvq {

namespace {

/// The variable's value, which fits an int since `most` is one.
std::optional<int> number_if_set(const char* name, int least, int most) {
  return environment_number(name, least, most, "torchrun and srun set it");
}

int number(const char* name, int least, int most) {
  if (const auto value = number_if_set(name, least, most)) return *value;
  throw UserError("{} is not set, though other variables of a launcher are; torchrun sets it",
                  name);
}

int number_or(const char* name, int fallback, int least, int most) {
  return number_if_set(name, least, most).value_or(fallback);
}

constexpr int kMost = 1 << 20;
constexpr int kPorts = 65535;

Launch launched_by_torchrun() {
  Launch launch;
  launch.size = number("WORLD_SIZE", 1, kMost);
  if (launch.alone()) return launch;
  launch.rank = number("RANK", 0, launch.size - 1);
  launch.local_rank = number("LOCAL_RANK", 0, launch.size - 1);
  launch.local_size = number_or("LOCAL_WORLD_SIZE", 1, 1, launch.size);
  const auto address = environment_text("MASTER_ADDR");
  if (!address) throw UserError("MASTER_ADDR is not set, though WORLD_SIZE is; torchrun sets it");
  launch.address = *address;
  launch.port = number("MASTER_PORT", 1, kPorts);
  launch.agent_store = environment_text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.attempt = number_or("TORCHELASTIC_RESTART_COUNT", 0, 0, kMost);
  return launch;
}

/// The first name of a list such as "gpu[003-007,12],login".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Launch launched_by_slurm() {
  Launch launch;
  launch.size = number("SLURM_NTASKS", 1, kMost);
  if (launch.alone()) return launch;
  launch.rank = number("SLURM_PROCID", 0, launch.size - 1);
  launch.local_rank = number("SLURM_LOCALID", 0, launch.size - 1);
  const int nodes = number_or("SLURM_NNODES", 1, 1, launch.size);
  launch.local_size = nodes == 1 ? launch.size : 1;
  const auto address = environment_text("MASTER_ADDR"),
             hosts = environment_text("SLURM_STEP_NODELIST"),
             job_hosts = environment_text("SLURM_JOB_NODELIST");
  if (!address && !hosts && !job_hosts) {
    throw UserError("srun gives no SLURM_STEP_NODELIST; set MASTER_ADDR to the first node's name");
  }
  launch.address = address ? *address : first_host(hosts ? *hosts : *job_hosts);
  // Jobs that share a node have different numbers.
  const int job = number_or("SLURM_JOB_ID", 0, 0, 1 << 30);
  launch.port = number_or("MASTER_PORT", 20000 + job % 20000, 1, kPorts);
  launch.attempt = number_or("SLURM_RESTART_COUNT", 0, 0, kMost);
  return launch;
}

}  // namespace

Launch launch_from_environment() {
  if (environment_text("WORLD_SIZE")) return launched_by_torchrun();
  // srun sets them for interactive shells too: only a step of several tasks counts.
  if (environment_text("SLURM_STEP_ID") && environment_text("SLURM_PROCID"))
    return launched_by_slurm();
  return {};
}

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
