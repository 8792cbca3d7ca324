#include "nsvq/ops/soft_assignment/row_chunks.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;

/// The data that backward needs besides tensors.
struct ChunkedFunction : torch::CustomClassHolder {
  RowFunction call;
  int64_t chunk = 1;
  size_t row_results = 0;
};

RowResults call_for_all(const ChunkedFunction& function, const Tensor& rows,
                        const variable_list& shared) {
  std::vector<variable_list> pieces;
  RowResults all;
  int64_t first = 0;
  for (const auto& piece : rows.split(function.chunk)) {
    const auto results = function.call(piece, first, shared);
    first += piece.size(0);
    pieces.resize(results.rows.size());
    for (size_t i = 0; i < pieces.size(); ++i) pieces[i].push_back(results.rows[i]);
    if (all.sums.empty()) {
      all.sums = results.sums;
    } else {
      for (size_t i = 0; i < all.sums.size(); ++i) all.sums[i] = all.sums[i] + results.sums[i];
    }
  }
  for (const auto& parts : pieces) all.rows.push_back(at::cat(parts));
  return all;
}

Tensor leaf(const Tensor& tensor, bool needs_gradient) {
  return tensor.detach().requires_grad_(needs_gradient && tensor.is_floating_point());
}

/// The gradients of a chunk's results for `inputs`; undefined where there is none.
variable_list chunk_gradients(const RowResults& results, const variable_list& gradients,
                              int64_t first, int64_t count, const variable_list& inputs) {
  variable_list outputs, weights;
  const auto add = [&](const Tensor& output, const Tensor& weight) {
    if (!output.requires_grad() || !weight.defined()) return;
    outputs.push_back(output);
    weights.push_back(weight);
  };
  const size_t rows = results.rows.size();
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (i < rows) {
      add(results.rows[i], gradients[i].narrow(0, first, count));
    } else {
      add(results.sums[i - rows], gradients[i]);
    }
  }
  if (outputs.empty()) return variable_list(inputs.size());
  return torch::autograd::grad(outputs, inputs, weights, /*retain_graph=*/false,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

class RowChunks : public torch::autograd::Function<RowChunks> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& rows,
                               const at::TensorList& shared,
                               const c10::intrusive_ptr<ChunkedFunction>& function) {
    variable_list saved = {rows};
    saved.insert(saved.end(), shared.begin(), shared.end());
    const auto results = call_for_all(*function, rows, shared.vec());
    function->row_results = results.rows.size();
    context->save_for_backward(std::move(saved));
    context->saved_data["function"] = c10::IValue::make_capsule(function);
    context->set_materialize_grads(false);
    variable_list outputs = results.rows, without_gradient;
    outputs.insert(outputs.end(), results.sums.begin(), results.sums.end());
    for (const auto& output : outputs) {
      if (!output.is_floating_point()) without_gradient.push_back(output);
    }
    context->mark_non_differentiable(without_gradient);
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "by_row_chunks: has no second derivative");
    const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
    const at::AutoGradMode with_graph(true);
    const auto function = c10::static_intrusive_pointer_cast<ChunkedFunction>(
        context->saved_data["function"].toCapsule());
    const auto saved = context->get_saved_variables();
    variable_list shared, wanted;
    std::vector<size_t> positions;  // positions of the wanted gradients among those returned
    for (size_t i = 1; i < saved.size(); ++i) {
      shared.push_back(leaf(saved[i], context->needs_input_grad(i)));
      if (!shared.back().requires_grad()) continue;
      wanted.push_back(shared.back());
      positions.push_back(i);
    }
    const bool of_rows = context->needs_input_grad(0);
    variable_list sums(saved.size() + 1), pieces;  // the last stands for the function
    int64_t first = 0;
    for (const auto& part : saved[0].detach().split(function->chunk)) {
      auto inputs = wanted;
      inputs.push_back(leaf(part, of_rows));
      const auto results = function->call(inputs.back(), first, shared);
      if (!of_rows) inputs.pop_back();
      const auto found = chunk_gradients(results, gradients, first, part.size(0), inputs);
      first += part.size(0);
      for (size_t i = 0; i < positions.size(); ++i) {
        if (!found[i].defined()) continue;
        auto& sum = sums[positions[i]];
        sum = sum.defined() ? sum + found[i] : found[i];
      }
      if (of_rows) {
        pieces.push_back(found.back().defined() ? found.back() : at::zeros_like(part));
      }
    }
    if (of_rows) sums[0] = at::cat(pieces);
    return sums;
  }
};

}  // namespace

int64_t rows_at_a_time(int64_t columns) {
  constexpr int64_t numbers = int64_t{1} << 25;
  return std::max<int64_t>(1, numbers / std::max<int64_t>(1, columns));
}

RowResults by_row_chunks(const Tensor& rows, const std::vector<Tensor>& shared, int64_t chunk,
                         RowFunction function) {
  TORCH_CHECK(rows.dim() > 0, "by_row_chunks: rows must be [N, ...], but they are a scalar");
  TORCH_CHECK(chunk > 0, "by_row_chunks: chunk must be positive, but it is ", chunk);
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const auto chunked = c10::make_intrusive<ChunkedFunction>();
  chunked->call = std::move(function);
  chunked->chunk = chunk;
  const auto outputs = RowChunks::apply(rows, at::TensorList(shared), chunked);
  const auto middle = outputs.begin() + static_cast<int64_t>(chunked->row_results);
  return {{outputs.begin(), middle}, {middle, outputs.end()}};
}

}  // namespace nsvq
