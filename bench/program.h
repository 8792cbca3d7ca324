#pragma once

namespace CLI {
class App;
}

namespace nsvq {

/// Runs nsvq_bench and returns its exit code, as `nsvq` has them: 2 for an error that the user can
/// fix, 3 for a failure at run time. Errors are one line on standard error.
int run_benchmarks(int argc, const char* const* argv);

void declare_bench_ops(CLI::App& app);
void declare_bench_diffusion(CLI::App& app);
void declare_bench_generation(CLI::App& app);

}  // namespace nsvq
