#include "nsvq/ops/code_search/gpu_passes.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/code_search/blocked/blocked.h"
#include "nsvq/ops/common/grid.h"

namespace nsvq::blocked {

namespace {

using code_search_cuda::data;
using code_search_cuda::Found;
using code_search_cuda::Inputs;

int64_t rounded_up(int64_t value, int64_t multiple) { return divided(value, multiple) * multiple; }

/// Sizes of a block: so many latents by so many codes. A block of few latents has several panels of
/// codes, each a split of the search, so that there is work for the whole GPU.
struct Plan {
  Plan(int64_t latents, int64_t codes, int64_t columns) {
    const int64_t panel = panel_for(codes);
    // Neither the products nor the packed codes are more numbers than kScores.
    const int64_t most = std::min(kScores / std::min(latents, kScores), kScores / columns);
    width = std::min(std::max(most / panel * panel, panel), rounded_up(codes, kCodeMultiple));
    rows = std::min(latents, kScores / width);
    splits = static_cast<int>(divided(width, panel));
  }
  int64_t rows, width;
  int splits;
};

/// Whether products are in TF32, by PyTorch's newer setting: the older one throws where a program
/// has used the newer one.
bool products_are_in_tf32() {
  const auto& context = at::globalContext();
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10
  return context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
#else
  return context.float32Precision("cuda", "matmul") == "tf32";
#endif
}

/// Packed latents, scratch memory for a block, and the loops over all blocks.
class Blocks {
 public:
  Blocks(const Inputs& in, double tau)
      : in_(in),
        columns_(rounded_up(in.dimension, 8)),  // as the tensor cores want them
        latent_columns_(rounded_up(in.dimension + 1, 8)),
        plan_(in.z.size(0), in.c.size(0), columns_),
        latents_(at::empty({in.z.size(0), latent_columns_}, in.z.options())),
        latent_norms_(in.room<RowNorms>(in.z.size(0))),
        codes_(at::empty({plan_.width, columns_}, in.z.options())),
        code_squares_(at::empty({plan_.width}, in.z.options())),
        code_norms_(in.room<RowNorms>(plan_.width)),
        widest_(at::zeros({divided(in.c.size(0), plan_.width), 2}, in.z.options().dtype(at::kInt))),
        unit_(in.room<Unit>(1)),
        products_(at::empty({plan_.rows * plan_.width}, in.z.options())) {
    write_unit(in.range(), tau, data<Unit>(unit_), in.stream);
    block_.frame = {in.centre_values(), data<Unit>(unit_), in.dimension, tau > 0,
                    in.dimension >= kTf32Dimensions};
    block_.given_latents = in.latents();
    block_.given_codes = in.codes();
    block_.products = products_.mutable_data_ptr<float>();
    block_.latents = {latents_.mutable_data_ptr<float>(),
                      nullptr,
                      data<RowNorms>(latent_norms_),
                      nullptr,
                      in.z.size(0),
                      latent_columns_};
    pack_rows(in.latents(), block_.frame, block_.latents, in.stream);
  }

  const Plan& plan() const { return plan_; }
  Block& block() { return block_; }

  /// Calls begin() for each block of codes, then visit(products [rows, padded codes]) for each
  /// block of latents, then end().
  template <typename Begin, typename Visit, typename End>
  void each(Begin begin, Visit visit, End end) {
    // Values that are rounded to TF32 already have exact products where a GPU multiplies in TF32.
    std::optional<Tf32Guard> products_in;
    if (products_are_in_tf32() != block_.frame.rounds) {
      products_in.emplace(Tf32Work::products, block_.frame.rounds);
    }
    const int64_t latents = in_.z.size(0), codes = in_.c.size(0);
    for (int64_t first = 0; first < codes; first += plan_.width) {
      pack_codes(first, std::min(plan_.width, codes - first));
      const auto transposed = codes_.narrow(0, 0, block_.codes.padded).t();
      begin();
      for (int64_t row = 0; row < latents; row += plan_.rows) {
        block_.first_latent = row;
        block_.count = std::min(plan_.rows, latents - row);
        auto products = products_.narrow(0, 0, block_.count * block_.codes.padded)
                            .view({block_.count, block_.codes.padded});
        at::mm_out(products, rows_of_latents().narrow(1, 0, columns_), transposed);
        visit(products);
      }
      end();
    }
  }

  /// The block's latents [rows, columns], with a column of ones.
  at::Tensor rows_of_latents() const {
    return latents_.narrow(0, block_.first_latent, block_.count);
  }

 private:
  void pack_codes(int64_t first, int64_t count) {
    auto* widest = reinterpret_cast<Widest*>(widest_.mutable_data_ptr<int>());
    block_.first_code = first;
    block_.codes = {codes_.mutable_data_ptr<float>(), code_squares_.mutable_data_ptr<float>(),
                    data<RowNorms>(code_norms_),      widest + first / plan_.width,
                    rounded_up(count, kCodeMultiple), columns_};
    pack_rows({in_.codes().values + first * in_.dimension, count}, block_.frame, block_.codes,
              in_.stream);
  }

  const Inputs& in_;
  int64_t columns_, latent_columns_;
  Plan plan_;
  at::Tensor latents_, latent_norms_, codes_, code_squares_, code_norms_, widest_, unit_, products_;
  Block block_{};
};

}  // namespace

void search(const Inputs& in, double tau, const Found& found) {
  Blocks blocks(in, tau);
  const auto states = in.room<State>(in.z.size(0) * blocks.plan().splits);
  blocks.block().states = data<State>(states);
  blocks.each([] {}, [&](const at::Tensor&) { sweep_block(blocks.block(), in.stream); }, [] {});
  finish_search(blocks.block(), blocks.plan().splits, found.results(), in.stream);
}

at::Tensor codebook_grad(const Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau) {
  Blocks blocks(in, tau);
  const auto anchors = in.room<Anchor>(in.z.size(0));
  anchor_latents(blocks.block(), indices.const_data_ptr<int64_t>(),
                 denominators.const_data_ptr<float>(), data<Anchor>(anchors), in.stream);
  const auto grads = at::empty(in.c.sizes(), in.c.options());
  const auto all_sums =
      at::empty({blocks.plan().width, blocks.block().latents.stride}, in.c.options());
  at::Tensor sums;
  blocks.each([&] { sums = all_sums.narrow(0, 0, blocks.block().codes.padded); },
              [&](const at::Tensor& products) {
                weigh_block(blocks.block(), data<Anchor>(anchors), in.stream);
                const double so_far = blocks.block().first_latent > 0 ? 1 : 0;
                sums.addmm_(products.t(), blocks.rows_of_latents(), /*beta=*/so_far);
              },
              [&] {
                finish_codebook_grad(blocks.block(), sums.const_data_ptr<float>(),
                                     grads.mutable_data_ptr<float>(), in.stream);
              });
  return grads;
}

}  // namespace nsvq::blocked
