#include "nsvq/cli/program.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <iostream>
#include <string>

#include "nsvq/cli/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/version.h"

namespace nsvq {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"train", "train a tokenizer from a recipe", declare_train},
      {"eval", "evaluate a tokenizer on images", declare_eval},
      {"compare", "evaluate several tokenizers on the same images", declare_compare},
      {"metrics", "compute metrics between two sets of images", declare_metrics},
      {"statistics", "compute FID statistics (mean and covariance) of a set of images",
       declare_statistics},
      {"reconstruct", "reconstruct images", declare_reconstruct},
      {"tokenize", "write the tokens of images to a folder of shards", declare_tokenize},
      {"detokenize", "decode a folder of tokens to images", declare_detokenize},
      {"codebook", "make a codebook by k-means of a model's latents or a network's features",
       declare_codebook},
      {"export", "write a model's weights and configuration for PyTorch", declare_export},
      {"import", "convert weights of taming-transformers or SimVQ to a model", declare_import},
      {"config", "print a recipe with all its settings, or a reference of all keys",
       declare_config},
      {"info", "show the contents of a checkpoint", declare_info},
      {"runs", "list the runs below a folder with their state and figures", declare_runs},
      {"weights", "fetch, import and list pretrained weights", declare_weights},
      {"bench", "measure speed and memory", declare_bench},
  };
  return table;
}

namespace {

constexpr int kUserError = 2;
constexpr int kRunError = 3;
constexpr auto kExitCodes =
    "Exit codes: 0 done; 2 an error in arguments, settings or input files; 3 a failure at run "
    "time;\n"
    "130 stopped by SIGINT (Ctrl-C), 143 by SIGTERM or SIGHUP, with what was done so far saved.";

int fail(int code, std::string message) {
  message = message.substr(0, message.find('\n'));
  log_line("nsvq: " + message);
  return code;
}

/// CLI11 would report a mistyped command as an unexpected argument.
void check_command_name(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  find_named(commands(), "command", argv[1]);
}

/// Raises the soft limit of open files, usually 1,024: each tar shard keeps a file open, and large
/// datasets have more shards.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("nsvq: discrete image tokenizers that do not collapse", "nsvq");
  app.set_version_flag("--version", std::string("nsvq ") + kVersion);
  app.require_subcommand(1);
  app.footer(kExitCodes);
  for (const auto& command : commands()) {
    command.declare(*app.add_subcommand(command.name, command.summary));
  }
  try {
    check_command_name(argc, argv);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(kUserError, std::string(error.what()) + " (nsvq --help, nsvq COMMAND --help)");
  }
}

}  // namespace

void open_standard_streams() {
  // open takes the lowest free number, so one that is closed is filled by the next file.
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

int run_program(int argc, char** argv) {
  allow_many_files();
  try {
    return parse_and_run(argc, argv);
  } catch (const Interrupted& stop) {
    return stop.exit_code();
  } catch (const UserError& error) {
    return fail(kUserError, error.what());
  } catch (const c10::OutOfMemoryError& error) {
    return fail(kRunError, describe_out_of_memory(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return fail(kRunError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(kRunError, error.what());
  }
}

}  // namespace nsvq
