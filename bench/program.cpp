#include "bench/program.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/profile.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/threads/shared_cores.h"

namespace nsvq {

namespace {

int fail(int code, const std::string& message) {
  log_line("nsvq_bench: " + message.substr(0, message.find('\n')));
  return code;
}

void declare_all(CLI::App& app) {
  const auto probe = std::make_shared<KernelProbe>();
  declare_bench_ops(*app.add_subcommand("ops", "time the operators against their plain versions"));
  declare_bench_step(
      *app.add_subcommand("step", "time a training step and its modules, on random images"), probe);
  declare_bench_tokenize(
      *app.add_subcommand("tokenize",
                          "time tokenising and its stages, on random images and on yours"),
      probe);
  declare_bench_diffusion(*app.add_subcommand(
      "diffusion", "time latent diffusion, a training step and sampling, on random latents"));
  declare_bench_generation(*app.add_subcommand(
      "generation", "time a generator of tokens, a training step and sampling, on random tokens"));
}

}  // namespace

int run_benchmarks(int argc, const char* const* argv) {
  const SharedCores cores;
  CLI::App app("nsvq_bench: speed and memory of nsvq, with FLOPs and profiles", "nsvq_bench");
  app.require_subcommand(1);
  declare_all(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(2, fmt::format("{} (nsvq_bench --help)", error.what()));
  } catch (const UserError& error) {
    return fail(2, error.what());
  } catch (const c10::Error& error) {
    return fail(3, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(3, error.what());
  }
}

}  // namespace nsvq
