#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "bench/bench_table.h"
#include "bench/cases.h"
#include "bench/program.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/ops/adam/adam.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/code_statistics/code_sums.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"
#include "nsvq/ops/soft_assignment/gumbel_softmax.h"

namespace nsvq {

namespace {

using Tensor = torch::Tensor;

constexpr uint64_t kSeed = 0;
constexpr double kTau = 0.35, kCommitment = 0.25, kEps = 1e-6;

/// Names of the operators in the order in which they are measured.
const std::vector<std::string> kOperators = {"nearest_codes",
                                             "nearest_codes_cosine",
                                             "ns_search",
                                             "ns_search + backward",
                                             "ns_codebook_grad",
                                             "ns_quantize + backward",
                                             "gumbel_softmax + backward",
                                             "code_usage",
                                             "code_sums",
                                             "group_norm_silu",
                                             "group_norm_silu + backward",
                                             "adam_step"};

struct BenchOpsArguments {
  std::string device = "auto";
  std::vector<std::string> paths;  ///< of the search on a GPU
  JsonArgument json;
  BenchChoice choice;
};

/// Runs the backward pass and clears the gradients: they would add to the next ones, and their
/// memory would count as allocated before.
void backward(const Tensor& loss, std::initializer_list<Tensor> leaves) {
  loss.backward();
  for (const auto& leaf : leaves) leaf.mutable_grad().reset();
}

/// Embedding, commitment and NS loss of a quantizer in plain tensor operations.
Tensor plain_quantizer(const Tensor& latents, const Tensor& codebook) {
  const auto indices = nearest_codes_reference(latents, codebook);
  const auto codes = codebook.index_select(0, indices);
  return (codes - latents.detach()).square().mean() +
         kCommitment * (latents - codes.detach()).square().mean() +
         ns_loss_reference(latents, codebook, indices, kTau);
}

/// plain_quantizer by ns_quantize. Latents whose gradient is scaled make one mean of both terms.
Tensor our_quantizer(const Tensor& latents, const Tensor& codebook) {
  const auto scaled = latents.detach().lerp(latents, kCommitment);
  const auto found = ns_quantize(scaled, codebook, kTau);
  return found.distances.sum() / latents.numel() + found.loss;
}

/// FLOPs of the product of all latents with all codes.
double product_flops(const CodeCase& one) {
  return static_cast<double>(2 * one.latents * one.codes * one.dimension);
}

/// The gradient of the codebook alone, given the winners.
void time_codebook_grad(BenchTable& table, const CodeCase& one, const std::string& sizes,
                        const Tensor& latents, const Tensor& codebook) {
  if (!table.wants("ns_codebook_grad")) return;
  using Grad = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  const auto codebook_grad = operator_named<Grad>("nsvq::ns_codebook_grad");
  const auto c = codebook.detach();
  const auto found = ns_search(latents, c, kTau, /*with_grad=*/false);
  const auto &winners = std::get<0>(found), &denominators = std::get<3>(found);
  table.compare(
      "ns_codebook_grad", sizes, {2 * product_flops(one), "FLOP"},
      [&] { backward(ns_loss_reference(latents, codebook, winners, kTau), {codebook}); },
      [&] { codebook_grad.call(latents, c, winners, denominators, kTau); });
}

/// `path` is named beside the sizes.
void time_codes(BenchTable& table, const CodeCase& one, const std::string& path) {
  const auto drawn = draw(one, kSeed, table.device());
  const auto& latents = drawn.latents;
  const auto codebook = drawn.codebook.requires_grad_(), fixed = codebook.detach();
  const double product = product_flops(one);
  const auto sizes = path.empty() ? one.name : fmt::format("{}, {}", one.name, path);
  table.compare(
      "nearest_codes", sizes, {product, "FLOP"}, [&] { nearest_codes_reference(latents, fixed); },
      [&] { nearest_codes(latents, fixed); });
  table.compare(
      "nearest_codes_cosine", sizes, {product, "FLOP"},
      [&] { nearest_codes_reference(unit_vectors(latents), unit_vectors(fixed)); },
      [&] { nearest_codes_cosine(latents, fixed); });
  table.compare(
      "ns_search", sizes, {2 * product, "FLOP"},
      [&] { ns_loss_reference(latents, fixed, nearest_codes_reference(latents, fixed), kTau); },
      [&] { ns_quantize(latents, fixed, kTau); });
  table.compare(
      "ns_search + backward", sizes, {3 * product, "FLOP"},
      [&] {
        backward(
            ns_loss_reference(latents, codebook, nearest_codes_reference(latents, fixed), kTau),
            {codebook});
      },
      [&] { backward(ns_quantize(latents, codebook, kTau).loss, {codebook}); });
  time_codebook_grad(table, one, sizes, latents, codebook);
  const auto leaf = latents.detach().clone().requires_grad_();
  table.compare(
      "ns_quantize + backward", sizes, {3 * product, "FLOP"},
      [&] {
        backward(plain_quantizer(leaf, codebook), {leaf, codebook});
      },
      [&] {
        backward(our_quantizer(leaf, codebook), {leaf, codebook});
      });
}

/// time_codes by each of some paths (NSVQ_GPU_PATH) or, given none, by the one that is set.
void time_by_paths(BenchTable& table, const CodeCase& one, const std::vector<std::string>& paths) {
  if (paths.empty() && table.wants_sizes(one.name)) time_codes(table, one, "");
  for (const auto& path : paths) {
    if (!table.wants_sizes(fmt::format("{}, {}", one.name, path))) continue;
    ::setenv("NSVQ_GPU_PATH", path.c_str(), 1);
    const bool fast = fast_search_unavailable_reason(one.dimension, table.device()).empty();
    if (path == "hopper" && !fast) continue;  // d has no kernels for Hopper
    time_codes(table, one, path);
  }
}

/// Codes drawn by logits, with gradients, as quantizer gumbel draws them: one product forward, and
/// backward that product again with three others.
void time_choice(BenchTable& table) {
  if (!table.wants("gumbel_softmax + backward")) return;
  const int64_t rows = table.device().is_cpu() ? 1024 : 8192, codes = 8192, dimension = 128;
  const auto options = at::TensorOptions(table.device());
  const auto leaf = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, options).mul_(0.1).requires_grad_();
  };
  const auto latents = leaf({rows, dimension}), weights = leaf({codes, dimension}),
             offsets = leaf({codes});
  const auto codebook = at::randn({codes, dimension}, options), pull = at::randn_like(latents);
  const auto temperature = at::full({}, 0.9, options);
  const auto seed = at::zeros({}, options.dtype(at::kLong));
  const auto both = [&](const GumbelSoftmax& chosen) {
    backward((chosen.carrier * pull).sum() + chosen.entropy, {latents, weights, offsets});
  };
  table.compare(
      "gumbel_softmax + backward", fmt::format("N {}, K {}, d {}", rows, codes, dimension),
      {static_cast<double>(10 * rows * codes * dimension), "FLOP"},
      [&] {
        both(gumbel_softmax_reference(latents, weights, offsets, codebook, temperature, seed));
      },
      [&] { both(gumbel_softmax(latents, weights, offsets, codebook, temperature, seed)); });
}

/// Statistics of codes that are known.
void time_statistics(BenchTable& table) {
  constexpr int64_t codes = 65536, rows = 1 << 18, fewer = 1 << 13, dimension = 128;
  const auto options = at::TensorOptions(table.device());
  const auto indices = at::randint(codes, {rows}, options.dtype(at::kLong));
  table.compare(
      "code_usage", fmt::format("N {}, K {}", rows, codes), {8.0 * (rows + codes), "B"},
      [&] { at::bincount(indices, {}, codes); }, [&] { code_usage(indices, codes); });
  const auto latents = at::randn({fewer, dimension}, options);
  const auto winners = indices.slice(0, 0, fewer);
  table.compare(
      "code_sums", fmt::format("N {}, K {}, d {}", fewer, codes, dimension),
      {4.0 * (fewer + codes) * dimension, "B"},
      [&] { code_sums_reference(latents, winners, codes); },
      [&] { code_sums(latents, winners, codes); });
}

/// Passes over the image: two to normalise after the statistics' one, and in the backward pass
/// input and gradient for the sums, then both again and the result.
void time_images(BenchTable& table, const ImageCase& one) {
  const auto drawn = draw(one, kSeed, table.device());
  const double bytes = static_cast<double>(drawn.input.nbytes());
  table.compare(
      "group_norm_silu", one.name, {3 * bytes, "B"},
      [&] {
        group_norm_silu_reference(drawn.input, drawn.weight, drawn.bias, one.groups, kEps, true);
      },
      [&] { group_norm_silu(drawn.input, drawn.weight, drawn.bias, one.groups, kEps, true); });
  const auto input = drawn.input.requires_grad_(), weight = drawn.weight.requires_grad_(),
             bias = drawn.bias.requires_grad_();
  const auto both = [&](auto op) {
    op(input, weight, bias, one.groups, kEps, true).backward(drawn.gradient);
    for (const auto& leaf : {input, weight, bias}) leaf.mutable_grad().reset();
  };
  table.compare(
      "group_norm_silu + backward", one.name, {8 * bytes, "B"},
      [&] { both(group_norm_silu_reference); }, [&] { both(group_norm_silu); });
}

/// Bytes per second, read plus written, of a copy between tensors.
double copy_bandwidth(c10::Device device, int rounds) {
  const int64_t bytes = int64_t{1} << (device.is_cpu() ? 27 : 30);
  const auto from = at::ones({bytes}, at::TensorOptions(device).dtype(at::kByte));
  const auto to = at::empty_like(from);
  const auto taken = time_work([&] { to.copy_(from); }, device, rounds);
  return 2.0 * static_cast<double>(bytes) / (taken->milliseconds / 1e3);
}

/// Adam and the weight average: parameter, moments and average are read and written, the gradient
/// is read.
void time_adam(BenchTable& table) {
  if (!table.wants("adam_step")) return;
  const int64_t count = 64, size = table.device().is_cpu() ? 1 << 16 : 1 << 20;
  const auto draws = [&](at::IntArrayRef shape) {
    std::vector<Tensor> tensors;
    for (int64_t i = 0; i < count; ++i) tensors.push_back(at::rand(shape, table.device()));
    return tensors;
  };
  const AdamTensors tensors{draws({size}), draws({size}), draws({size}),
                            draws({size}), draws({}),     draws({size})};
  const AdamOptions options{
      .lr = 1e-4, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-8, .average_decay = 0.999};
  table.compare(
      "adam_step", fmt::format("{} tensors of {}", count, size),
      {static_cast<double>(36 * count * size), "B"},
      [&] { adam_step_reference(tensors, options, {}); }, [&] { adam_step(tensors, options, {}); });
}

void run_bench_ops(const BenchOpsArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto device = choose_device(arguments.device);
  require_gpu_for_kernels(arguments.choice.kernels, device);
  const int rounds = arguments.choice.rounds;
  BenchTable table(device, arguments.choice, kOperators);
  const Tf32Guard as_in_pytorch(Tf32Work::products, true);
  const double copy = copy_bandwidth(device, rounds);
  fmt::print("{}; medians of {} rounds in turns; a copy reads and writes {:.1f} GB/s\n\n",
             describe(device), rounds, copy / 1e9);
  const auto use = device.is_cpu() ? CaseUse::time_cpu : CaseUse::time_gpu;
  for (const auto& one : code_cases()) {
    if (one.use == use) time_by_paths(table, one, arguments.paths);
  }
  time_choice(table);
  time_statistics(table);
  for (const auto& one : image_cases()) {
    if (one.use == use && table.wants_sizes(one.name)) time_images(table, one);
  }
  time_adam(table);
  table.finish();
  const Json json = {{"device", describe(device)},
                     {"rounds", rounds},
                     {"copy_bytes_per_second", copy},
                     {"rows", table.rows()}};
  output.write(json);
}

}  // namespace

void declare_bench_ops(CLI::App& app) {
  const auto arguments = std::make_shared<BenchOpsArguments>();
  app.add_option("--device", arguments->device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--paths", arguments->paths,
                 "NAME,NAME: kernels of the search on a GPU, in turn (NSVQ_GPU_PATH)")
      ->delimiter(',')
      ->check(CLI::IsMember({"hopper", "sm80", "sm86", "blocked"}));
  auto& choice = arguments->choice;
  app.add_option("--rounds", choice.rounds, "times that each pair is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--only", choice.only, "TEXT: operators whose name holds it");
  app.add_option("--sizes", choice.sizes,
                 "TEXT: cases whose sizes hold it, such as \"d 128, crowded\"");
  app.add_option("--kernels", choice.kernels,
                 "profile a GPU: times of the N longest kernels of each row")
      ->check(CLI::Range(1, 1000));
  declare_json_argument(app, arguments->json);
  app.callback([arguments] { run_bench_ops(*arguments); });
}

}  // namespace nsvq
