// `nsvq bench`: one subcommand per benchmark.

#include <CLI/CLI.hpp>

#include "nsvq/cli/bench/bench_diffusion.h"
#include "nsvq/cli/bench/bench_ops.h"
#include "nsvq/cli/bench/bench_step.h"
#include "nsvq/cli/bench/bench_tokenize.h"
#include "nsvq/cli/program/command.h"

namespace nsvq {

namespace {

const std::vector<Command>& benches() {
  static const std::vector<Command> table = {
      {"ops", "time the operators against their plain versions", declare_bench_ops},
      {"step", "time a training step and its parts, on random images", declare_bench_step},
      {"tokenize", "time tokenising and its parts, on random images and on yours",
       declare_bench_tokenize},
      {"diffusion", "time latent diffusion, a training step and sampling, on random latents",
       declare_bench_diffusion},
  };
  return table;
}

}  // namespace

void declare_bench(CLI::App& app) {
  app.require_subcommand(1);
  for (const auto& bench : benches()) {
    bench.declare(*app.add_subcommand(bench.name, bench.summary));
  }
}

}  // namespace nsvq
