#include "bench/network_step.h"

#include <fmt/format.h>

#include "nsvq/cli/bench/bench.h"
#include "nsvq/core/error.h"

namespace nsvq {

Json bench_network_steps(Loop& loop, const OneBatch& batches, c10::Device device, int rounds) {
  const auto step = [&] { loop.step_for_benchmark(batches.batch(), {}); };
  for (int i = 0; i < 5; ++i) step();  // until the CUDA graph is captured
  // Measured after the eager steps: statistics of a graph's pool tell only what is reserved.
  const MemoryUse memory(device);
  const auto taken = time_work(step, device, rounds);
  if (!taken) throw RunError("out of memory: the step does not fit into the device's memory");
  const double rate = 1e3 * static_cast<double>(batches.samples()) / taken->milliseconds;
  fmt::print("training, batch {}: {:.2f} ms a step, {:.1f} images/s, {}\n", batches.samples(),
             taken->milliseconds, rate, memory.text());
  Json json = {{"batch_size", batches.samples()},
               {"milliseconds", taken->milliseconds},
               {"images_per_second", rate},
               {"graph", loop.graphs_disabled_reason().empty()}};
  memory.add_to(json);
  return json;
}

}  // namespace nsvq
