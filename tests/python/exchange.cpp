// The C++ side of read_back.py and npz.py:
//   exchange write FOLDER   writes a safetensors file, an .npz file and TensorBoard events for
//   Python
//                           to read
//   exchange print FILE     prints the tensors of a safetensors file that Python wrote, or `mu` and
//                           `sigma` of an .npz file

#include <fmt/format.h>
#include <torch/types.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/npz.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/formats/tensorboard.h"

namespace {

using namespace nsvq;

void write_tensors(const std::filesystem::path& folder) {
  TensorFile file;
  for (const auto type :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kUInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    // Odd sizes: what follows lies aligned only if the writer sees to it.
    file.tensors[torch::toString(type)] = torch::arange(33).remainder(7).to(type);
  }
  file.tensors["transposed"] = torch::arange(6, torch::kFloat32).reshape({2, 3}).t();
  file.tensors["scalar"] = torch::tensor(2.5, torch::kFloat32);
  file.tensors["empty"] = torch::empty({3, 0, 2}, torch::kFloat32);
  file.metadata = {{"step", "12"}, {"config", "a: \"\u00fc\"\n"}};
  write_safetensors(folder / "tensors.safetensors", file);
}

void write_arrays(const std::filesystem::path& folder) {
  const auto sigma = torch::arange(25, torch::kFloat64).reshape({5, 5}) / 7;
  write_npz(folder / "arrays.npz", {{"mu", torch::arange(5, torch::kFloat64) / 3},
                                    {"sigma", sigma},
                                    {"transposed", sigma.t()},
                                    {"single", torch::full({1, 3}, 1.5, torch::kFloat32)},
                                    {"scalar", torch::tensor(-2.0, torch::kFloat64)},
                                    {"empty", torch::empty({3, 0}, torch::kFloat32)}});
}

void write_events(const std::filesystem::path& folder) {
  EventWriter writer(folder / "events");
  for (int step = 0; step < 50; ++step) writer.scalar("train/loss", step, 1.0 / (step + 1));
  writer.scalar("far", int64_t{1} << 40, -1e30);
  Image image{5, 3, {}};
  for (int i = 0; i < 5 * 3 * 3; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 5));
  writer.image("samples", 7, image);
  writer.text("config", 0, "# nsvq\n`a: \u00fc`");
}

void print_tensors(const std::filesystem::path& path) {
  TensorFile file;
  if (path.extension() == ".npz") {
    file.tensors = read_npz(path, {"mu", "sigma"});
  } else {
    file = read_safetensors(path);
  }
  for (const auto& [key, value] : file.metadata) fmt::print("metadata {} {}\n", key, value);
  for (const auto& [name, tensor] : file.tensors) {
    std::string line = fmt::format("{} {} [", name, torch::toString(tensor.scalar_type()));
    for (const int64_t size : tensor.sizes()) line += fmt::format("{},", size);
    line += "]";
    const torch::Tensor values = tensor.to(torch::kFloat64).flatten();
    for (int64_t i = 0; i < values.numel(); ++i) {
      line += fmt::format(" {}", values[i].item<double>());
    }
    fmt::print("{}\n", line);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc == 3 ? argv[1] : "";
  if (command == "write") {
    write_tensors(argv[2]);
    write_arrays(argv[2]);
    write_events(argv[2]);
  } else if (command == "print") {
    print_tensors(argv[2]);
  } else {
    fmt::print(stderr, "usage: exchange write FOLDER | print FILE\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "exchange: {}\n", error.what());
  return 1;
}
