#include "nsvq/io/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/safetensors_header.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t longest_header = 100'000'000;  // the official reader's limit

/// What else a file is, by its first bytes.
std::string describe_foreign(std::string_view start, const std::filesystem::path& path) {
  const bool old = start.starts_with("\x80\x02\x8a\x0a\x6c\xfc");  // by torch.save before 1.6
  if (old || start.starts_with("PK\x03\x04")) {
    return fmt::format(
        "a PyTorch file (.pt, .pth, .ckpt) or another zip archive, not safetensors; `nsvq info {}` "
        "says what it holds, `nsvq import` makes a model of weights it knows",
        shown_shell_word(path.string()));
  }
  if (start.starts_with("\x80")) return "a Python pickle that torch.save has not written";
  const auto is_text = [](unsigned char c) {
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  };
  if (std::all_of(start.begin(), start.end(), is_text) && text_prefix(start) + 4 > start.size()) {
    return "a text (a recipe?), not safetensors";
  }
  return "truncated, or not safetensors";
}

SafetensorsHeader read_header(const InputFile& file, uint64_t& data_start) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    throw UserError("cannot read {}: too short to be a safetensors file", file.path().string());
  }
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header || length > file.size() - sizeof(length)) {
    std::string start(std::min<uint64_t>(file.size(), 64), '\0');
    file.read(0, std::as_writable_bytes(std::span(start)));
    throw UserError("cannot read {}: {}", file.path().string(),
                    describe_foreign(start, file.path()));
  }
  std::string text(length, '\0');
  file.read(sizeof(length), std::as_writable_bytes(std::span(text)));
  data_start = sizeof(length) + length;
  try {
    return parse_safetensors_header(text, file.size() - data_start);
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", file.path().string(), error.what());
  }
}

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

torch::Tensor read_tensor(const InputFile& file, uint64_t data_start, const TensorEntry& entry) {
  torch::Tensor tensor = torch::empty(entry.shape, entry.type);
  const std::span<std::byte> bytes = bytes_of(tensor);
  file.read(data_start + entry.begin, bytes);
  // Any other byte in a bool is undefined behaviour for its users.
  const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
  if (entry.type == torch::kBool && !std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    throw UserError("cannot read {}: tensor {}: a bool is neither 0 nor 1", file.path().string(),
                    quote(entry.name, kShownName));
  }
  return tensor;
}

SafetensorsHeader lay_out(const TensorFile& file) {
  SafetensorsHeader header{file.metadata, {}};
  for (const auto& [name, tensor] : file.tensors) {
    if (!tensor.defined() || tensor.layout() != torch::kStrided) {
      throw RunError("tensor {} is undefined or not dense", quote(name, kShownName));
    }
    header.entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  // Names come sorted from the map; a stable sort keeps them so within one element size.
  const auto larger = [](const TensorEntry& a, const TensorEntry& b) {
    return torch::elementSize(a.type) > torch::elementSize(b.type);
  };
  std::stable_sort(header.entries.begin(), header.entries.end(), larger);
  uint64_t position = 0;
  for (TensorEntry& entry : header.entries) {
    entry.begin = position;
    position += file.tensors.at(entry.name).numel() * torch::elementSize(entry.type);
    entry.end = position;
  }
  return header;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const InputFile input(path);
  uint64_t data_start = 0;
  SafetensorsHeader header = read_header(input, data_start);
  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (const TensorEntry& entry : header.entries) {
    file.tensors[entry.name] = read_tensor(input, data_start, entry);
  }
  return file;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  uint64_t data_start = 0;
  return read_header(InputFile(path), data_start);
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  SafetensorsHeader header;
  std::string text;
  try {
    header = lay_out(file);
    text = format_safetensors_header(header);
  } catch (const RunError& error) {
    throw RunError("cannot write {}: {}", path.string(), error.what());
  }
  AtomicFile output(path);
  const auto length = static_cast<uint64_t>(text.size());
  output.write(std::as_bytes(std::span(&length, 1)));
  output.write(std::as_bytes(std::span(text)));
  for (const TensorEntry& entry : header.entries) {
    const torch::Tensor& tensor = file.tensors.at(entry.name);
    // A negated view keeps its sign beside the data.
    output.write(bytes_of(tensor.detach().cpu().resolve_neg().contiguous()));
  }
  output.commit();
}

}  // namespace nsvq
