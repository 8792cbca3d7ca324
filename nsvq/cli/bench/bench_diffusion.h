#pragma once

namespace CLI {
class App;
}

namespace nsvq {

/// `nsvq bench diffusion`.
void declare_bench_diffusion(CLI::App& app);

}  // namespace nsvq
