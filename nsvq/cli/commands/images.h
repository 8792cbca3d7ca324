#pragma once

namespace CLI {
class App;
}

namespace nsvq {

// Subcommands of `nsvq images`.
void declare_images_compare(CLI::App& app);
void declare_images_statistics(CLI::App& app);

}  // namespace nsvq
