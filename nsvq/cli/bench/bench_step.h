#pragma once

namespace CLI {
class App;
}

namespace nsvq {

/// `nsvq bench step`.
void declare_bench_step(CLI::App& app);

}  // namespace nsvq
