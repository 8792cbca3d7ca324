#pragma once

namespace CLI {
class App;
}

namespace nsvq {

/// `nsvq bench tokenize`.
void declare_bench_tokenize(CLI::App& app);

}  // namespace nsvq
