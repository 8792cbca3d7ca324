#include "nsvq/ops/random/seeded_random.h"

#include <torch/library.h>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/random/numbered_seed.h"
#include "nsvq/ops/random/philox.h"

namespace nsvq {

namespace {

/// Numbers [count]; draw(begin, end, values) writes a share of them.
template <typename Draw>
torch::Tensor drawn_by_threads(int64_t count, Draw draw) {
  auto values = at::empty({count}, at::kFloat);
  auto* value = values.mutable_data_ptr<float>();
  constexpr int64_t kOfATask = 4096;
  parallel_ranges(count, kOfATask, [&](int64_t begin, int64_t end) { draw(begin, end, value); });
  return values;
}

torch::Tensor seeded_values_cpu(const torch::Tensor& seed, int64_t draw, int64_t count,
                                bool normal) {
  const auto start = static_cast<uint64_t>(seed.item<int64_t>());
  return drawn_by_threads(count, [=](int64_t begin, int64_t end, float* values) {
    for (int64_t i = begin; i < end; ++i) {
      values[i] = normal ? normal_at(start, draw, i) : uniform_at(start, draw, i);
    }
  });
}

torch::Tensor seeded_rows_cpu(const torch::Tensor& seeds, int64_t draw, int64_t count,
                              bool normal) {
  const auto starts = seeds.contiguous();
  const auto* start = starts.const_data_ptr<int64_t>();
  const auto values =
      drawn_by_threads(seeds.numel() * count, [=](int64_t begin, int64_t end, float* value) {
        for (int64_t i = begin; i < end; ++i) {
          const auto seed = static_cast<uint64_t>(start[i / count]);
          value[i] = normal ? normal_at(seed, draw, i % count) : uniform_at(seed, draw, i % count);
        }
      });
  return values.view({seeds.numel(), count});
}

torch::Tensor gumbel_values_cpu(const torch::Tensor& seed, int64_t first, int64_t count) {
  const auto start = static_cast<uint64_t>(seed.item<int64_t>());
  return drawn_by_threads(count, [=](int64_t begin, int64_t end, float* values) {
    Four noise = gumbels_at(start, (first + begin) / 4);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = first + i;
      if (index % 4 == 0) noise = gumbels_at(start, index / 4);
      values[i] = noise.at[index % 4];
    }
  });
}

torch::Tensor numbered_seeds_cpu(const torch::Tensor& seeds, const torch::Tensor& numbers) {
  const auto both = at::broadcast_tensors({seeds, numbers});
  const auto starts = both[0].contiguous(), counts = both[1].contiguous();
  auto made = at::empty(starts.sizes(), starts.options());
  const auto *start = starts.const_data_ptr<int64_t>(), *count = counts.const_data_ptr<int64_t>();
  auto* seed = made.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < made.numel(); ++i) seed[i] = numbered_seed(start[i], count[i]);
  return made;
}

torch::Tensor seeded_values(const torch::Tensor& seed, int64_t draw, int64_t count, bool normal) {
  check_seed("seeded_values", seed, seed.device());
  using Draw = torch::Tensor(const torch::Tensor&, int64_t, int64_t, bool);
  static const auto op = operator_named<Draw>("nsvq::seeded_values");
  return op.call(seed, draw, count, normal);
}

torch::Tensor seeded_rows(const torch::Tensor& seeds, int64_t draw, int64_t count, bool normal) {
  TORCH_CHECK(seeds.scalar_type() == at::kLong && seeds.dim() == 1,
              "seeded_rows: the seeds must be [rows] of int64, but they are ", seeds.scalar_type(),
              " ", seeds.sizes());
  TORCH_CHECK(count >= 0, "seeded_rows: count is ", count);
  using Draw = torch::Tensor(const torch::Tensor&, int64_t, int64_t, bool);
  static const auto op = operator_named<Draw>("nsvq::seeded_rows");
  return op.call(seeds, draw, count, normal);
}

}  // namespace

void check_seed(const char* op, const torch::Tensor& seed, c10::Device device) {
  TORCH_CHECK(seed.scalar_type() == at::kLong && seed.numel() == 1 && seed.device() == device, op,
              ": the seed must be one int64 on ", device, ", but it is ", seed.scalar_type(), " ",
              seed.sizes(), " on ", seed.device());
}

torch::Tensor uniform_values(const torch::Tensor& seed, int64_t draw, int64_t count) {
  return seeded_values(seed, draw, count, /*normal=*/false);
}

torch::Tensor normal_values(const torch::Tensor& seed, int64_t draw, int64_t count) {
  return seeded_values(seed, draw, count, /*normal=*/true);
}

torch::Tensor uniform_rows(const torch::Tensor& seeds, int64_t draw, int64_t count) {
  return seeded_rows(seeds, draw, count, /*normal=*/false);
}

torch::Tensor normal_rows(const torch::Tensor& seeds, int64_t draw, int64_t count) {
  return seeded_rows(seeds, draw, count, /*normal=*/true);
}

torch::Tensor gumbel_values(const torch::Tensor& seed, int64_t first, int64_t count) {
  check_seed("gumbel_values", seed, seed.device());
  using Draw = torch::Tensor(const torch::Tensor&, int64_t, int64_t);
  static const auto op = operator_named<Draw>("nsvq::gumbel_values");
  return op.call(seed, first, count);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("gumbel_values(Tensor seed, int first, int count) -> Tensor");
  m.def("numbered_seeds(Tensor seeds, Tensor numbers) -> Tensor");
  m.def("seeded_values(Tensor seed, int draw, int count, bool normal) -> Tensor");
  m.def("seeded_rows(Tensor seeds, int draw, int count, bool normal) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("numbered_seeds", numbered_seeds_cpu);
  m.impl("seeded_values", seeded_values_cpu);
  m.impl("seeded_rows", seeded_rows_cpu);
  m.impl("gumbel_values", gumbel_values_cpu);
}

}  // namespace nsvq
