#include "nsvq/ops/transformer/swiglu_inference.h"

#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

at::Tensor swiglu_inference_cpu(const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu_inference(gate, up);
  return swiglu_inference_reference(gate, up);
}

}  // namespace

void check_swiglu_inference(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.dim() > 0 && gate.sizes() == up.sizes() && gate.size(-1) % 8 == 0 &&
                  gate.device() == up.device(),
              "swiglu_inference: both must be [..., C] alike, C a multiple of 8, but they are ",
              gate.sizes(), " and ", up.sizes());
  for (const auto& one : {gate, up}) {
    TORCH_CHECK(one.scalar_type() == at::kBFloat16 && one.stride(-1) == 1,
                "swiglu_inference: both must be bf16 with rows of adjacent numbers");
  }
}

at::Tensor swiglu_inference(const at::Tensor& gate, const at::Tensor& up) {
  using SwigluInference = at::Tensor(const at::Tensor&, const at::Tensor&);
  static const auto op = operator_named<SwigluInference>("nsvq::swiglu_inference");
  return op.call(gate, up);
}

at::Tensor swiglu_inference_reference(const at::Tensor& gate, const at::Tensor& up) {
  return (at::silu(at_least_fp32(gate)) * at_least_fp32(up)).to(gate.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) { m.def("swiglu_inference(Tensor gate, Tensor up) -> Tensor"); }
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("swiglu_inference", swiglu_inference_cpu); }

}  // namespace nsvq
