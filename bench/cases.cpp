#include "bench/cases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nsvq {

namespace {

/// Draws on the CPU, so that every device gets equal values.
class Draws {
 public:
  explicit Draws(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

  torch::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, generator_); }
  /// Whole numbers from -limit to limit.
  torch::Tensor whole(int64_t limit, at::IntArrayRef sizes) {
    return at::randint(-limit, limit + 1, sizes, generator_).to(at::kFloat);
  }
  torch::Tensor rows_of(const torch::Tensor& matrix, int64_t count) {
    return matrix.index_select(0, at::randint(matrix.size(0), {count}, generator_));
  }
  /// Rows of a matrix, a few of them drawn most of the time.
  torch::Tensor uneven_rows_of(const torch::Tensor& matrix, int64_t count) {
    const auto rows = at::rand({count}, generator_).pow(4) * matrix.size(0);
    return matrix.index_select(0, rows.to(at::kLong).clamp_max(matrix.size(0) - 1));
  }

 private:
  at::Generator generator_;
};

struct Sizes {
  int64_t latents, codes, dimension;
  double scale() const { return 1 / std::sqrt(static_cast<double>(dimension)); }
};

/// Codes after replacement: `count` of them, some 64 copies each, `apart` from each other.
torch::Tensor copies(Draws& draws, const torch::Tensor& base, int64_t count, double apart) {
  const auto all = base.repeat({(count + base.size(0) - 1) / base.size(0), 1}).slice(0, 0, count);
  return all + draws.normal(all.sizes()) * apart;
}

torch::Tensor base_codes(Draws& draws, const Sizes& sizes) {
  return draws.normal({std::max<int64_t>(sizes.codes / 64, 1), sizes.dimension}) * sizes.scale();
}

DrawnCodes draw_copies(Draws& draws, const Sizes& sizes, double apart) {
  const auto base = base_codes(draws, sizes);
  return {draws.normal({sizes.latents, sizes.dimension}) * sizes.scale(),
          copies(draws, base, sizes.codes, apart)};
}

DrawnCodes draw_random(Draws& draws, const Sizes& sizes) {
  return {draws.normal({sizes.latents, sizes.dimension}) * sizes.scale(),
          draws.normal({sizes.codes, sizes.dimension}) * sizes.scale()};
}

/// The state after training: codes in clusters, latents close to codes.
DrawnCodes draw_clustered(Draws& draws, const Sizes& sizes) {
  const auto codebook = copies(draws, base_codes(draws, sizes), sizes.codes, 0.3 * sizes.scale());
  const auto latents = draws.rows_of(codebook, sizes.latents);
  return {latents + draws.normal(latents.sizes()) * (0.1 * sizes.scale()), codebook};
}

DrawnCodes draw_replaced(Draws& draws, const Sizes& sizes) {
  return draw_copies(draws, sizes, 1e-3);
}

DrawnCodes draw_duplicates(Draws& draws, const Sizes& sizes) {
  return draw_copies(draws, sizes, 0);
}

/// Small whole numbers, where many distances are equal.
DrawnCodes draw_ties(Draws& draws, const Sizes& sizes) {
  return {draws.whole(2, {sizes.latents, sizes.dimension}),
          draws.whole(2, {sizes.codes, sizes.dimension})};
}

/// Large norms, far from the origin, with codes that differ in the last digits.
DrawnCodes draw_large(Draws& draws, const Sizes& sizes) {
  const auto base = base_codes(draws, sizes) * 1e4 + 1e4;
  return {draws.normal({sizes.latents, sizes.dimension}) * 1e3 + 1e4,
          copies(draws, base, sizes.codes, 1e-2)};
}

/// Codes of very different norms, so that one bound for all of them would be loose.
DrawnCodes draw_uneven(Draws& draws, const Sizes& sizes) {
  auto [latents, codebook] = draw_random(draws, sizes);
  return {latents, codebook * (draws.normal({sizes.codes, 1}) * 2).exp()};
}

/// Codes after replacement when few of them had won: thousands of copies of the most used ones, and
/// latents `away` from them.
DrawnCodes draw_crowds(Draws& draws, const Sizes& sizes, double away) {
  const auto base = base_codes(draws, sizes);
  const auto codebook = draws.uneven_rows_of(base, sizes.codes);
  const auto latents = draws.uneven_rows_of(base, sizes.latents);
  return {latents + draws.normal(latents.sizes()) * away,
          codebook + draws.normal(codebook.sizes()) * 1e-3};
}

DrawnCodes draw_crowded(Draws& draws, const Sizes& sizes) {
  return draw_crowds(draws, sizes, 0.1 * sizes.scale());
}

/// The first epochs, when codes lag: latents are as far from codes as these from each other.
DrawnCodes draw_far_crowds(Draws& draws, const Sizes& sizes) {
  return draw_crowds(draws, sizes, sizes.scale());
}

/// Plain vector quantization at its start from codes about the origin: the few that won have moved
/// away, and latents elsewhere are nearest to one of the many small ones.
DrawnCodes draw_moved(Draws& draws, const Sizes& sizes) {
  const auto small = draws.normal({sizes.codes, sizes.dimension}) / sizes.codes;
  const auto large = draws.normal({1, sizes.dimension}) * sizes.scale() +
                     draws.normal({sizes.codes, sizes.dimension}) * (0.02 * sizes.scale());
  const auto moved = draws.normal({sizes.codes, 1}).gt(2.2);  // some 1.4 %
  return {draws.normal({sizes.latents, sizes.dimension}) * (20 * sizes.scale()),
          at::where(moved, large, small)};
}

/// Codes so small that rounding makes fp64 distances equal or changes their order.
DrawnCodes draw_tiny_codes(Draws& draws, const Sizes& sizes) {
  auto [latents, codebook] = draw_random(draws, sizes);
  return {latents, codebook * 1e-14};
}

/// A fifth of the codes lie together where no latent is.
DrawnCodes draw_distant(Draws& draws, const Sizes& sizes) {
  auto [latents, codebook] = draw_random(draws, sizes);
  const auto shift = draws.normal({sizes.codes}).gt(0.84).to(at::kFloat) * 100;
  codebook.select(1, 0).add_(shift);
  return {latents, codebook};
}

/// Values whose products leave the normal range of fp32.
DrawnCodes draw_tiny(Draws& draws, const Sizes& sizes) {
  const auto drawn = draw_random(draws, sizes);
  return {drawn.latents * 1e-22, drawn.codebook * 1e-22};
}

/// Values whose squares fp32 does not hold.
DrawnCodes draw_huge(Draws& draws, const Sizes& sizes) {
  const auto drawn = draw_random(draws, sizes);
  return {drawn.latents * 1e20, drawn.codebook * 1e20};
}

struct Family {
  std::string name;
  DrawnCodes (*draw)(Draws&, const Sizes&);
};

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"random", draw_random},
      {"clustered", draw_clustered},
      {"copies 1e-3 apart", draw_replaced},
      {"duplicates", draw_duplicates},
      {"ties", draw_ties},
      {"large norms", draw_large},
      {"uneven norms", draw_uneven},
      {"few moved codes", draw_moved},
      {"crowded copies", draw_crowded},
      {"crowded copies far away", draw_far_crowds},
      {"tiny codes", draw_tiny_codes},
      {"distant codes", draw_distant},
      {"tiny values", draw_tiny},
      {"huge values", draw_huge},
  };
  return table;
}

const char* name_of(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : type == at::kHalf ? "fp16" : "bf16";
}

std::string sizes_name(int64_t n, int64_t k, int64_t d) {
  return fmt::format("N {}, K {}, d {}", n, k, d);
}

CodeCase small(int64_t n, int64_t k, int64_t d, const std::string& family,
               at::ScalarType type = at::kFloat) {
  return {fmt::format("{}, {}, {}", sizes_name(n, k, d), family, name_of(type)),
          n,
          k,
          d,
          family,
          CaseUse::test,
          type};
}

CodeCase timed(CaseUse use, int64_t n, int64_t k, int64_t d, const std::string& family) {
  return {sizes_name(n, k, d) + (family == "random" ? "" : ", " + family),
          n,
          k,
          d,
          family,
          use,
          at::kFloat};
}

std::vector<CodeCase> make_code_cases() {
  std::vector<CodeCase> all;
  // Sizes around strips, tiles, panels and blocks.
  for (const int64_t n : {0, 1, 6, 33, 130}) {
    for (const int64_t k : {1, 15, 17, 333}) {
      for (const int64_t d : {1, 8, 31, 64, 130}) all.push_back(small(n, k, d, "random"));
    }
  }
  all.push_back(small(64, 300, 1024, "random"));
  all.push_back(small(513, 1100, 8, "random"));
  for (const auto& family : code_families()) {
    for (const int64_t d : {3, 32, 128, 256}) all.push_back(small(150, 700, d, family));
  }
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const char* family : {"random", "clustered"}) {
      all.push_back(small(60, 300, 48, family, type));
    }
  }
  for (const auto& [n, k, d] : {Sizes{1024, 1024, 64}, {1024, 8192, 32}, {1024, 8192, 128}}) {
    all.push_back(timed(CaseUse::time_cpu, n, k, d, "random"));
  }
  const char* const after_training[] = {"copies 1e-3 apart", "few moved codes", "crowded copies",
                                        "crowded copies far away"};
  for (const char* family : after_training) {
    all.push_back(timed(CaseUse::time_cpu, 1024, 8192, 128, family));
  }
  for (const auto& [n, k, d] : {Sizes{8192, 8192, 64},
                                {8192, 65536, 128},
                                {32768, 65536, 128},
                                {8192, 65536, 256},
                                {8192, 1048576, 128},
                                {8192, 65536, 4},
                                {8192, 65536, 512}}) {
    all.push_back(timed(CaseUse::time_gpu, n, k, d, "random"));
  }
  for (const char* family : after_training) {
    all.push_back(timed(CaseUse::time_gpu, 8192, 65536, 128, family));
  }
  return all;
}

ImageCase images_of(CaseUse use, int64_t images, int64_t channels, int64_t side, int64_t groups,
                    at::ScalarType type) {
  return {fmt::format("{}x{}x{}x{}, {}", images, channels, side, side, name_of(type)),
          images,
          channels,
          side,
          side,
          groups,
          use,
          type};
}

std::vector<ImageCase> make_image_cases() {
  std::vector<ImageCase> all;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    all.push_back(images_of(CaseUse::test, 2, 64, 9, 32, type));
    all.push_back(images_of(CaseUse::test, 1, 30, 5, 10, type));
    all.push_back(images_of(CaseUse::test, 3, 128, 16, 32, type));
  }
  all.push_back(images_of(CaseUse::time_cpu, 8, 64, 32, 32, at::kFloat));
  all.push_back(images_of(CaseUse::time_cpu, 8, 128, 64, 32, at::kBFloat16));
  all.push_back(images_of(CaseUse::time_gpu, 32, 128, 128, 32, at::kBFloat16));
  all.push_back(images_of(CaseUse::time_gpu, 32, 512, 16, 32, at::kBFloat16));
  return all;
}

}  // namespace

const std::vector<std::string>& code_families() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& family : families()) all.push_back(family.name);
    return all;
  }();
  return names;
}

const std::vector<CodeCase>& code_cases() {
  static const std::vector<CodeCase> table = make_code_cases();
  return table;
}

const std::vector<ImageCase>& image_cases() {
  static const std::vector<ImageCase> table = make_image_cases();
  return table;
}

DrawnCodes draw(const CodeCase& one, uint64_t seed, c10::Device device) {
  const auto family = std::find_if(families().begin(), families().end(),
                                   [&](const Family& some) { return some.name == one.family; });
  TORCH_CHECK(family != families().end(), "cases: no family '", one.family, "'");
  Draws draws(seed);
  const auto drawn = family->draw(draws, {one.latents, one.codes, one.dimension});
  return {drawn.latents.to(device, one.type), drawn.codebook.to(device, one.type)};
}

DrawnImages draw(const ImageCase& one, uint64_t seed, c10::Device device) {
  Draws draws(seed);
  const auto images = [&](double offset) {
    return (draws.normal({one.images, one.channels, one.height, one.width}) + offset)
        .to(device, one.type)
        .contiguous(at::MemoryFormat::ChannelsLast);
  };
  return {images(0.5), images(0), (draws.normal({one.channels}) + 1).to(device, one.type),
          draws.normal({one.channels}).to(device, one.type)};
}

}  // namespace nsvq
