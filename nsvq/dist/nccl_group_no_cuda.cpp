#include "nsvq/core/error.h"
#include "nsvq/dist/group.h"

namespace nsvq {

std::string why_no_nccl(Group& /*base*/, c10::Device /*device*/) {
  return "this build has no CUDA";
}

std::shared_ptr<Group> make_nccl_group(std::shared_ptr<Group> /*base*/, c10::Device /*device*/) {
  throw UserError("dist.backend: nccl: this build has no CUDA");
}

}  // namespace nsvq
