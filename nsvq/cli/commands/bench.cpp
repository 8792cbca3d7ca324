// `nsvq bench`: what a user sizes a machine by. nsvq_bench (bench/) measures more.

#include <CLI/CLI.hpp>

#include "nsvq/cli/bench/bench.h"
#include "nsvq/cli/program/command.h"

namespace nsvq {

void declare_bench(CLI::App& app) {
  app.require_subcommand(1);
  app.footer(
      "nsvq_bench, which `make` builds beside nsvq, also times operators, latent diffusion and\n"
      "generators of tokens, and profiles kernels.");
  const auto probe = std::make_shared<BenchProbe>();
  declare_bench_step(
      *app.add_subcommand("step", "time a training step and its modules, on random images"), probe);
  declare_bench_tokenize(
      *app.add_subcommand("tokenize",
                          "time tokenising and its stages, on random images and on yours"),
      probe);
}

}  // namespace nsvq
