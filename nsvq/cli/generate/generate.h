#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nsvq/cli/sampling/sampled_model.h"
#include "nsvq/generation/generator_session.h"
#include "nsvq/io/formats/json.h"

namespace CLI {
class App;
}

namespace nsvq {

// Subcommands of `nsvq generate`.
void declare_generate_train(CLI::App& app);
void declare_generate_sample(CLI::App& app);
void declare_generate_eval(CLI::App& app);
void declare_generate_inpaint(CLI::App& app);
void declare_generate_export(CLI::App& app);
void declare_generate_import(CLI::App& app);

/// Arguments of every subcommand that samples tokens. Numbers below 0 mean the model's own
/// settings.
struct GenerateArguments : SamplingArguments {
  double guidance = -1, temperature = -1, top_p = -1;
  int64_t steps = -1, top_k = -1;
  int64_t resize = 0;  ///< side of the images that are made of samples; 0: as decoded
};

void declare_generate_arguments(CLI::App& app, GenerateArguments& arguments);
/// --resize, of commands that make images of samples alone.
void declare_resize(CLI::App& app, GenerateArguments& arguments);

/// The generator, with these arguments overriding its own settings. Throws UserError naming the
/// option that does not fit.
std::unique_ptr<GeneratorSession> open_generator(const GenerateArguments& arguments,
                                                 const Launch& launch = {});

/// Images [first, end) with their classes.
GenerationRequest request_tokens(const GeneratorSession& session,
                                 const GenerateArguments& arguments, int64_t first, int64_t end);

/// What commands that sample images know of it. `session` outlives it.
SampledModel sampled_model(GeneratorSession& session, const GenerateArguments& arguments);

/// How it samples, for people: "masked, guidance 2, temperature 1".
std::string describe_sampling(const GeneratorSession& session, const GenerateArguments& arguments);
/// All of it, by key.
Json sampling_json(const GeneratorSession& session, const GenerateArguments& arguments);

}  // namespace nsvq
