#pragma once

namespace CLI {
class App;
}

namespace nsvq {

/// `nsvq bench ops`.
void declare_bench_ops(CLI::App& app);

}  // namespace nsvq
