// Search and NS loss on a CPU in one sweep, without the N x K matrix, and with the gradient if it
// is wanted.
//
// The gradient needs each latent's softmax and so its sum over all codes first. The weights of a
// block of latents are therefore kept until their sums are known, and then multiplied with the
// latents. That costs two products for each pair, where a separate backward pass (ns_codebook_grad)
// has to repeat the first one. Latents belong to one thread in the first step and codes in the
// second, and sums have a fixed order, so the number of threads does not matter.

#include <torch/library.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/code_search/cpu/codebook_grad_sums_cpu.h"
#include "nsvq/ops/code_search/cpu/search_sweep_cpu.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

namespace {

/// Latents in a block: with more of them the sums of the gradient pass through memory less often.
constexpr int64_t kBlock = 8 * kTaskRows;

/// Weights kept for a block, 60 MiB: enough for 65,536 codes.
constexpr int64_t kMostKept = kBlock * 65536;

/// Checked inputs, and tensors for the results.
class NsSearchRun {
 public:
  NsSearchRun(const torch::Tensor& latents, const torch::Tensor& codebook, double tau)
      : z_(as_floats(latents, codebook, tau)),
        c_(codebook.to(at::kFloat).contiguous()),
        panels_(c_),
        norms_(norms_of(z_.const_data_ptr<float>(), z_.size(0), z_.size(1))),
        sweep_{z_.const_data_ptr<float>(), norms_, c_.const_data_ptr<float>(), panels_,
               rate_of(tau)},
        indices_(at::empty({count()}, at::kLong)),
        distances_(at::empty({count()}, at::kFloat)),
        losses_(at::empty_like(distances_)),
        denominators_(at::empty_like(distances_)) {
    const double norm = largest_of(norms_);
    check_finite("ns_search", norm, panels_.largest());
    TORCH_CHECK(squares_fit(norm, panels_.largest()),
                "ns_search: squares of latents and codebook must fit into fp32");
  }

  int64_t count() const { return z_.size(0); }

  void search() {
    parallel_ranges(count(), kTaskRows, [&](int64_t begin, int64_t end) {
      RowResult results[kTaskRows];
      sweep_rows(sweep_, begin, end, results, nullptr);
      for (int64_t i = begin; i < end; ++i) note(i, results[i - begin]);
    });
  }

  torch::Tensor search_with_grad() {
    CodebookGradSums sums(panels_);
    const auto weights = at::empty({panels_.panels(), kBlock, kPanel}, at::kFloat);
    const auto references = at::empty({panels_.pieces(), kBlock}, at::kFloat);
    const KeptWeights kept{weights.mutable_data_ptr<float>(), references.mutable_data_ptr<float>(),
                           kBlock};
    for (int64_t begin = 0; begin < count(); begin += kBlock) {
      grad_of_block(begin, std::min(begin + kBlock, count()), kept, sums);
    }
    auto grads = at::empty_like(c_);
    parallel_tasks(panels_.pieces(), [&](int64_t piece) {
      sums.write(piece * panels_.piece(), panels_.piece(), sweep_.codebook,
                 grads.mutable_data_ptr<float>());
    });
    return grads;
  }

  NsSearched results() const { return {indices_, distances_, losses_, denominators_}; }

 private:
  static torch::Tensor as_floats(const torch::Tensor& latents, const torch::Tensor& codebook,
                                 double tau) {
    check_codes("ns_search", latents, codebook);
    check_tau("ns_search", tau);
    TORCH_CHECK(latents.scalar_type() != at::kDouble && codebook.scalar_type() != at::kDouble,
                "ns_search: latents and codebook must be fp32, bf16 or fp16");
    return latents.to(at::kFloat).contiguous();
  }

  void note(int64_t i, const RowResult& result) {
    indices_.mutable_data_ptr<int64_t>()[i] = result.index;
    distances_.mutable_data_ptr<float>()[i] = static_cast<float>(result.distance);
    losses_.mutable_data_ptr<float>()[i] = static_cast<float>(result.loss);
    denominators_.mutable_data_ptr<float>()[i] = static_cast<float>(result.denominator);
  }

  void grad_of_block(int64_t begin, int64_t end, const KeptWeights& kept, CodebookGradSums& sums) {
    const int64_t rows = end - begin;
    std::vector<RowResult> results(rows);
    parallel_ranges(rows, kTaskRows, [&](int64_t first, int64_t last) {
      const KeptWeights own{kept.weights + first * kPanel, kept.references + first, kBlock};
      sweep_rows(sweep_, begin + first, begin + last, results.data() + first, &own);
      for (int64_t i = first; i < last; ++i) note(begin + i, results[i]);
    });
    parallel_tasks(panels_.pieces(), [&](int64_t piece) {
      const int64_t d = panels_.dimension(), panel = piece * panels_.piece();
      std::vector<float> shares(rows), components(strips_size(d + 1, rows));
      if (!shares_of(results, kept.references + piece * kBlock, shares)) return;
      pack_component_strips(sweep_.latents + begin * d, shares.data(), rows, d, components.data());
      sums.add(panel, std::min(panels_.piece(), panels_.panels() - panel), components.data(), rows,
               kept.weights + panel * kBlock * kPanel, kBlock * kPanel);
    });
  }

  /// The factors that turn a piece's weights into those of the softmax. False if all of them are 0.
  bool shares_of(const std::vector<RowResult>& results, const float* references,
                 std::vector<float>& shares) const {
    bool any = false;
    for (size_t i = 0; i < shares.size(); ++i) {
      const auto& [index, distance, loss, denominator, least, share] = results[i];
      const double gap = static_cast<double>(references[i]) - least;
      shares[i] = static_cast<float>(gap > 0 ? share * std::exp2(-gap * sweep_.rate) : share);
      any |= shares[i] > 0;
    }
    return any;
  }

  torch::Tensor z_, c_;
  CodePanels panels_;
  std::vector<double> norms_;
  Sweep sweep_;
  torch::Tensor indices_, distances_, losses_, denominators_;
};

NsSearched ns_search_cpu(const torch::Tensor& latents, const torch::Tensor& codebook, double tau) {
  NsSearchRun run(latents, codebook, tau);
  run.search();
  return run.results();
}

NsSearchedWithGrad ns_search_with_grad_cpu(const torch::Tensor& latents,
                                           const torch::Tensor& codebook, double tau) {
  if (kBlock * codebook.size(0) > kMostKept) return ns_search_then_grad(latents, codebook, tau);
  NsSearchRun run(latents, codebook, tau);
  const auto grad = run.search_with_grad();
  return std::tuple_cat(run.results(), std::make_tuple(grad));
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("ns_search", ns_search_cpu);
  m.impl("ns_search_with_grad", ns_search_with_grad_cpu);
}

}  // namespace nsvq
