#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nsvq {

/// A command of the program: its name, a line of help, and a function that declares its arguments
/// and sets the callback that runs once they are parsed.
struct Command {
  std::string name;
  std::string summary;
  void (*declare)(CLI::App& app);
  std::string group = "Commands";  ///< its heading in the help
};

/// All commands, in the order of the help.
const std::vector<Command>& commands();

/// Adds `commands` to a command that does nothing without one of them.
void declare_commands(CLI::App& app, const std::vector<Command>& commands);

void declare_train(CLI::App& app);
void declare_eval(CLI::App& app);
void declare_compare(CLI::App& app);
void declare_images(CLI::App& app);
void declare_images_compare(CLI::App& app);
void declare_images_statistics(CLI::App& app);
void declare_reconstruct(CLI::App& app);
void declare_tokenize(CLI::App& app);
void declare_detokenize(CLI::App& app);
void declare_encode(CLI::App& app);
void declare_tokens(CLI::App& app);
void declare_diffusion(CLI::App& app);
void declare_codebook(CLI::App& app);
void declare_export(CLI::App& app);
void declare_import(CLI::App& app);
void declare_config(CLI::App& app);
void declare_info(CLI::App& app);
void declare_runs(CLI::App& app);
void declare_report(CLI::App& app);
void declare_watch(CLI::App& app);
void declare_reproduce(CLI::App& app);
void declare_weights(CLI::App& app);
void declare_bench(CLI::App& app);
void declare_doctor(CLI::App& app);
void declare_completion(CLI::App& app);

}  // namespace nsvq
