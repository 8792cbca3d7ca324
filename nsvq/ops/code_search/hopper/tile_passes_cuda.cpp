#include "nsvq/ops/code_search/gpu_passes.h"

#include <ATen/ops/empty.h>

#include "nsvq/ops/code_search/sm80/sm80_passes.h"

namespace nsvq::tiles {

namespace {

using code_search_cuda::data;
using code_search_cuda::Found;
using code_search_cuda::Inputs;

/// Memory for tiles of `rows` rows, rounded up to a multiple.
at::Tensor tiles_for(const Inputs& in, int64_t rows, int64_t multiple) {
  const int panels = panels_for(in.dimension);
  const int64_t padded = (rows + multiple - 1) / multiple * multiple;
  return in.room<uint8_t>(padded / tile_rows(panels) * tile_bytes(panels));
}

/// Tiles of codes and latents, which serve both passes.
struct Tiles {
  Tiles(const Inputs& in, double tau, bool with_latents)
      : codes(tiles_for(in, in.c.size(0), 128)),
        latents(tiles_for(in, in.z.size(0), 256)),
        rows(in.room<Row>(in.z.size(0))) {
    const Matrix to_pack{in.latents().values, with_latents ? in.z.size(0) : 0};
    pack_search_tiles(in.codes(), to_pack, in.dimension, in.centre_values(), in.range(), tau,
                      data<uint8_t>(codes), data<uint8_t>(latents), data<Row>(rows), in.widest(),
                      in.stream);
  }
  at::Tensor codes, latents, rows;
};

/// All arrays of Crowds in one allocation, since each takes the host a microsecond.
struct CrowdRoom {
  explicit CrowdRoom(const Inputs& in)
      : n(in.z.size(0)),
        k(in.c.size(0)),
        row(int64_t{panels_for(in.dimension)} * kPanelColumns),
        words((k + 127) / 128 * 4),  // for whole tiles
        marked(marked_crowds(n, words)),
        bytes(in.room<uint8_t>(n * (2 * row + sizeof(crowds::Difference) +
                                    kMostHits * sizeof(Candidate) + sizeof(CrowdMember) +
                                    6 * sizeof(int32_t)) +
                               (2 * k + marked * words) * sizeof(int32_t) + kPieces * kAlignment)) {
    const int64_t counts = Crowds::kCounts;
    crowds.counts = in.crowd_counts();
    crowds.sizes = crowds.counts + counts;
    crowds.limits = crowds.sizes + k;
    crowds.firsts = take<int32_t>(k);
    crowds.centres = take<int32_t>(n);
    crowds.places = take<int32_t>(k);
    crowds.centre_of = take<int32_t>(n);
    crowds.scores = take<float>(n);
    crowds.marks = take<uint32_t>(marked * words);
    crowds.marked = static_cast<int32_t>(marked);
    crowds.words = static_cast<int32_t>(words);
    crowds.members = take<CrowdMember>(n);
    crowds.latents = take<int32_t>(n);
    crowds.rows = take<uint16_t>(n * row);
    crowds.differences = take<crowds::Difference>(n);
    crowds.floors = take<int32_t>(n);
    crowds.hit_counts = take<int32_t>(n);
    crowds.hits = take<Candidate>(n * kMostHits);
  }

  template <typename T>
  T* take(int64_t count) {
    auto* piece = data<uint8_t>(bytes) + used;
    used += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(piece);
  }

  static constexpr int64_t kPieces = 13, kAlignment = 256;
  int64_t n, k, row, words, marked, used = 0;
  at::Tensor bytes;
  Crowds crowds;
};

void search_packed(const Inputs& in, const Tiles& tiles, double tau, const Results& results) {
  const int64_t n = in.z.size(0), k = in.c.size(0), d = in.dimension;
  const bool hopper = in.path == GpuPath::hopper;
  const SearchPlan plan = plan_search_pass(n, k, d, in.processors,
                                           hopper ? kHopperBlockLatents : sm80::block_latents(d));
  const auto candidates = in.room<Candidate>(n * plan.splits * plan.capacity);
  const auto partials = in.room<Partial>(n * plan.splits);
  const int tile = tile_rows(panels_for(d));
  const SearchPass pass{data<uint8_t>(tiles.latents),
                        data<uint8_t>(tiles.codes),
                        data<Row>(tiles.rows),
                        in.range(),
                        in.widest(),
                        tau,
                        n,
                        static_cast<int>((k + tile - 1) / tile),
                        plan.splits,
                        plan.capacity,
                        data<Candidate>(candidates),
                        data<Partial>(partials)};
  if (hopper) {
    run_search_pass(pass, d, in.stream);
  } else {
    sm80::run_search_pass(pass, d, in.shared_limit, in.stream);
  }
  const CrowdRoom room(in);
  const Problem problem{pass, in.latents(), in.codes(), d, results, room.crowds};
  rerank_candidates(problem, in.stream);
  if (hopper) {
    mark_crowds(problem, in.stream);
  } else {
    sm80::mark_crowds(problem, in.shared_limit, in.stream);
  }
  multiply_crowds(problem, in.processors, in.shared_limit, in.stream);
  finish_crowds(problem, in.stream);
}

/// The second pass, on tiles of latents whose softmax denominators are known.
at::Tensor codebook_grad_packed(const Inputs& in, const Tiles& tiles, double tau) {
  const int64_t n = in.z.size(0), k = in.c.size(0), d = in.dimension;
  const auto grads = at::empty({k, d}, in.c.options());
  const int rows = tile_rows(panels_for(d));
  const int64_t latent_tiles = (n + rows - 1) / rows;
  const int splits = grad_splits(latent_tiles, k, in.processors);
  const auto parts = splits == 1 ? grads : at::empty({splits, k, d}, grads.options());
  const GradPass pass{data<uint8_t>(tiles.latents),
                      data<uint8_t>(tiles.codes),
                      in.codes(),
                      d,
                      latent_tiles,
                      in.centre_values(),
                      in.range(),
                      tau,
                      parts.mutable_data_ptr<float>()};
  if (in.path == GpuPath::hopper) {
    run_codebook_grad_pass(pass, splits, in.stream);
  } else {
    sm80::run_codebook_grad_pass(pass, splits, in.shared_limit, in.stream);
  }
  if (splits == 1) return grads;
  add_parts(parts.const_data_ptr<float>(), splits, k * d, grads.mutable_data_ptr<float>(),
            in.stream);
  return grads;
}

}  // namespace

void search(const Inputs& in, double tau, const Found& found) {
  search_packed(in, Tiles(in, tau, /*with_latents=*/true), tau, found.results());
}

at::Tensor codebook_grad(const Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau) {
  const Tiles tiles(in, tau, /*with_latents=*/false);
  pack_grad_tiles(in.latents(), in.codes(), in.dimension, in.centre_values(), in.range(), tau,
                  indices.const_data_ptr<int64_t>(), denominators.const_data_ptr<float>(),
                  data<uint8_t>(tiles.latents), in.stream);
  return codebook_grad_packed(in, tiles, tau);
}

at::Tensor search_with_grad(const Inputs& in, double tau, const Found& found) {
  const Tiles tiles(in, tau, /*with_latents=*/true);
  search_packed(in, tiles, tau, found.results());
  weight_latent_tiles(in.z.size(0), in.dimension, in.range(), tau, data<Row>(tiles.rows),
                      found.results(), data<uint8_t>(tiles.latents), in.stream);
  return codebook_grad_packed(in, tiles, tau);
}

}  // namespace nsvq::tiles
