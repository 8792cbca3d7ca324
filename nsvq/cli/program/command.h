#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nsvq {

class JsonOutput;

/// A command of the program: its name, a line of help, and a function that declares its arguments
/// and sets the callback that runs once they are parsed.
struct Command {
  std::string name;
  std::string summary;
  void (*declare)(CLI::App& app);
  std::string group = "Commands";  ///< its heading in the help
};

/// Group (CLI::Option::group) of the options that `nsvq help COMMAND` leaves to `--all`.
inline constexpr auto kRare = "More options";

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
void declare_generate(CLI::App& app);
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

// Parts of commands in files of their own.

/// Runs scripts/weights.py ($NSVQ_WEIGHTS_SCRIPT, else the installed one, else the source tree's)
/// by $NSVQ_PYTHON, else the Python beside the LibTorch of the build, else python3. The script
/// itself says in a line on standard error what fails; its exit codes are ours. Throws UserError
/// where there is no script or no Python.
void run_weights_script(const std::vector<std::string>& arguments);

/// What `nsvq info` shows of a folder of latents or tokens or of a shard of tokens; false for
/// anything else. Throws UserError where it is damaged.
bool show_tokens_or_latents(const std::filesystem::path& path, JsonOutput& output);

}  // namespace nsvq
