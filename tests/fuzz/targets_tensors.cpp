#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nsvq/io/formats/npy.h"
#include "nsvq/io/formats/pytorch/pytorch_file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/tokens/token_shard.h"
#include "tests/fuzz/byte_edits.h"
#include "tests/fuzz/target.h"

namespace nsvq {

using namespace std::string_literals;

namespace {

/// Numbers of codes, one per type of tokens.
constexpr std::array<int64_t, 3> kCodes = {64, 1000, 100000};

std::map<std::string, Bytes> safetensors_seeds() {
  const auto file = [](const TensorFile& contents) {
    return written("input.safetensors",
                   [&](const std::string& path) { write_safetensors(path, contents); });
  };
  const TensorFile few{{{"a", at::arange(6, at::kFloat).reshape({2, 3})},
                        {"b.c", at::ones({4}, at::kBFloat16)},
                        {"empty", at::zeros({0, 2}, at::kLong)}},
                       {{"format", "pt"}}};
  return {{"few.safetensors", file(few)}, {"none.safetensors", file({})}};
}

std::map<std::string, Bytes> token_seeds() {
  std::map<std::string, Bytes> seeds;
  const TokenShard shard{at::arange(32).reshape({2, 4, 4}), {3, -1}, {"a.jpg", "b/c"}};
  for (const int64_t codes : kCodes) {
    seeds[fmt::format("{}.safetensors", codes)] =
        written("input.safetensors",
                [&](const std::string& path) { write_token_shard(path, shard, codes); });
  }
  const TokenShard none{at::empty({0, 4, 4}, at::kLong), {}, {}};
  seeds["none.safetensors"] = written("input.safetensors", [&](const std::string& path) {
    write_token_shard(path, none, kCodes[0]);
  });
  return seeds;
}

/// Reads a shard with the number of codes that fits the type of its tokens, if one does.
void read_tokens(std::span<const std::byte> bytes) {
  const auto path = file_with(bytes, "tokens-00000.safetensors");
  auto codes = kCodes[0];
  for (const auto& entry : read_safetensors_header(path).entries) {
    for (const int64_t some : kCodes) {
      if (entry.name == "tokens" && entry.type == token_type(some)) codes = some;
    }
  }
  read_token_shard(path, codes);
}

Bytes npy(std::string header, const at::Tensor& tensor) {
  auto bytes = bytes_of(header);
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  bytes.insert(bytes.end(), data, data + tensor.nbytes());
  return bytes;
}

std::map<std::string, Bytes> npy_seeds() {
  const auto eye = at::eye(3, at::kDouble), ones = at::ones({5});
  return {{"double.npy", npy(npy_header(eye), eye)}, {"float.npy", npy(npy_header(ones), ones)}};
}

/// The header of as many fp64 numbers, with another type.
std::map<std::string, Bytes> npy_integer_seeds() {
  const auto numbers = at::arange(12).reshape({3, 2, 2});
  auto header = npy_header(numbers.to(at::kDouble));
  header[header.find("<f8") + 1] = 'i';
  return {{"int64.npy", npy(header, numbers)}};
}

/// {"w": a tensor of 2x3 numbers, "m": an object with a tensor in its state}, as torch.save writes
/// tensors.
std::map<std::string, Bytes> pickle_seeds() {
  const std::string tensor =
      "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
      "0X\3\0\0\0cpuK\6tQK\0K\2K\3\x86K\3K\1\x86\x89"
      "ccollections\nOrderedDict\n)RtR"s;
  const auto pickle = "\x80\2}q\0(X\1\0\0\0w"s + tensor +
                      "X\1\0\0\0mcm\nModule\n)\x81}X\1\0\0\0b"s + tensor + "sbu."s;
  return {{"tensors.pkl", bytes_of(pickle)}};
}

/// Files of torch.save of before 1.6 and of today with these tensors.
std::map<std::string, Bytes> pytorch_seeds() {
  const auto described = pickle_seeds().at("tensors.pkl");
  const std::string numbers(6 * sizeof(float), '\1');
  const auto old = "\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}."s +
                   text_of(described) +
                   "\x80\2]X\1\0\0\0"
                   "0a.\6\0\0\0\0\0\0\0"s +
                   numbers;
  return {{"old.pt", bytes_of(old)},
          {"new.pt", zip_of({{"x/data.pkl", described}, {"x/data/0", bytes_of(numbers)}})}};
}

void mend_pytorch(Bytes& bytes) {
  if (!bytes.empty() && bytes[0] == std::byte{'P'}) mend_zip(bytes);
}

}  // namespace

void mend_safetensors(Bytes& bytes) {
  if (bytes.size() < 9) return;
  const uint64_t length =
      little_endian32(bytes, 0) | static_cast<uint64_t>(little_endian32(bytes, 4)) << 32;
  if (length <= bytes.size() - 8) return;
  const auto last = std::find(bytes.rbegin(), bytes.rend() - 8, std::byte{'}'});
  put_little_endian32(bytes, 0, static_cast<uint32_t>(bytes.rend() - last - 8));
  put_little_endian32(bytes, 4, 0);
}

std::vector<FuzzTarget> tensor_targets() {
  return {
      {"safetensors",
       [](std::span<const std::byte> bytes) {
         read_safetensors(file_with(bytes, "input.safetensors"));
       },
       safetensors_seeds, mend_safetensors},
      {"token_shard", read_tokens, token_seeds, mend_safetensors},
      {"npy", [](std::span<const std::byte> bytes) { parse_npy(bytes); }, npy_seeds},
      {"npy_integers",
       [](std::span<const std::byte> bytes) { parse_npy(bytes, NpyNumbers::integer); },
       npy_integer_seeds},
      {"pytorch_pickle", [](std::span<const std::byte> bytes) { parse_pytorch_pickle(bytes); },
       pickle_seeds},
      {"pytorch_file",
       [](std::span<const std::byte> bytes) { read_pytorch(file_with(bytes, "input.pt")); },
       pytorch_seeds, mend_pytorch},
  };
}

}  // namespace nsvq
