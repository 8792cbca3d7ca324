#include "nsvq/nn/weights.h"

#include <cstdlib>
#include <span>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/safetensors_header.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSha256 = "nsvq.sha256";
constexpr const char* kSource = "nsvq.source";
constexpr const char* kOfficial = "nsvq.official";

using Metadata = std::map<std::string, std::string>;

std::string value_of(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

/// `read` is read_safetensors or read_safetensors_header.
template <typename Contents>
Contents read_stored(const WeightsKind& kind, const fs::path& path,
                     Contents (*read)(const fs::path&)) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw UserError("no weights {} in {}; run `{}`", kind.name, path.parent_path().string(),
                    kind.command);
  }
  try {
    return read(path);
  } catch (const UserError& error) {
    throw UserError("{}; run `{}` again", error.what(), kind.command);
  }
}

void check_sha256(const WeightsKind& kind, const fs::path& path, const TensorFile& file) {
  const auto stored = value_of(file.metadata, kSha256);
  if (stored.empty()) {
    throw UserError(
        "{} has no sha256 of nsvq's; move it elsewhere and bring it back with `nsvq weights import "
        "FILE --as {}`",
        path.string(), kind.name);
  }
  const auto found = tensors_sha256(file.tensors);
  if (found != stored) {
    throw UserError("{} is damaged: sha256 {}..., stored as {}...; run `{}` again", path.string(),
                    found.substr(0, 12), quote(stored.substr(0, 12)), kind.command);
  }
}

}  // namespace

const std::vector<WeightsKind>& weights_kinds() {
  static const std::vector<WeightsKind> kinds = {
      {"vgg16", "torchvision's VGG16, convolutions", "nsvq weights get lpips-vgg",
       "d649de3c8126095cbd4ddf98051ee4c6eb54127548e4623473d5a202c46418fe", ""},
      {"alexnet", "torchvision's AlexNet, convolutions", "nsvq weights get lpips-alex",
       "276812cc7430109e87ad2847e4409809bf867956c8a5e9621ae88a1bfcb08e76", ""},
      {"squeezenet1_1", "torchvision's SqueezeNet 1.1, convolutions",
       "nsvq weights import squeezenet1_1-b8a52dc0.pth --as squeezenet1_1", "", "b8a52dc0"},
      {"resnet50", "torchvision's ResNet-50, no classifier",
       "nsvq weights import resnet50-0676ba61.pth --as resnet50", "", "0676ba61"},
      {"resnet50-fc", "torchvision's ResNet-50, the classifier",
       "nsvq weights import resnet50-0676ba61.pth --as resnet50-fc", "", "0676ba61"},
      {"lpips-vgg", "LPIPS 0.1, heads on VGG16", "nsvq weights get lpips-vgg",
       "9153a2043dccf3b525d4f13db916e93ef040548ea923b6f2100de5ebac141a78", ""},
      {"lpips-alex", "LPIPS 0.1, heads on AlexNet", "nsvq weights get lpips-alex",
       "718a8b40b0d22f96192d34ab93c0db5c7943558ff6c2407f44812dce2f29b5f4", ""},
      {"lpips-squeeze", "LPIPS 0.1, heads on SqueezeNet 1.1", "nsvq weights get lpips-squeeze",
       "68f1b1752260e0335c6394983132e210e3ed5c2540e78d239be07671a77130e4", ""},
      // The tensors of TensorFlow's graph of 2015-12-05, or pytorch-fid's own file of them.
      {"inception", "the InceptionV3 of FID", "nsvq weights get inception",
       "af53601073976795636cd02ee9600acda030836ac82b058b243f57d19c95c0c1", "6726825d"},
      {"inception-fc", "the InceptionV3 of FID, the classifier",
       "nsvq weights import pt_inception-2015-12-05-6726825d.pth --as inception", "", "6726825d"},
  };
  return kinds;
}

const WeightsKind& weights_kind(const std::string& name) {
  return find_named(weights_kinds(), "weights", name);
}

fs::path weights_folder() {
  if (const char* own = std::getenv("NSVQ_WEIGHTS"); own && *own != '\0') return own;
  const auto cache = cache_folder();
  if (cache.empty()) throw UserError("no folder for weights: set HOME or NSVQ_WEIGHTS");
  return cache / "weights";
}

fs::path weights_path(const std::string& name) {
  return weights_folder() / (weights_kind(name).name + ".safetensors");
}

std::string tensors_sha256(const TensorMap& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    const auto whole = tensor.detach().cpu().contiguous();
    hash.add({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
  }
  return hash.hex();
}

void save_weights(const std::string& name, const Weights& weights) {
  TensorFile file{weights.tensors, {{"format", "pt"}}};
  file.metadata[kSha256] = tensors_sha256(weights.tensors);
  file.metadata[kSource] = weights.source;
  file.metadata[kOfficial] = weights.official ? "yes" : "no";
  write_safetensors(weights_path(name), file);
}

Weights load_weights(const std::string& name) {
  const auto& kind = weights_kind(name);
  const auto path = weights_path(name);
  const auto file = read_stored(kind, path, read_safetensors);
  check_sha256(kind, path, file);
  Weights weights{
      {}, value_of(file.metadata, kSource), value_of(file.metadata, kOfficial) == "yes"};
  for (const auto& [tensor_name, tensor] : file.tensors) {
    weights.tensors[tensor_name] = tensor.to(torch::kFloat);
  }
  return weights;
}

WeightsOrigin weights_origin(const std::string& name) {
  const auto metadata =
      read_stored(weights_kind(name), weights_path(name), read_safetensors_header).metadata;
  return {value_of(metadata, kSource), value_of(metadata, kOfficial) == "yes",
          value_of(metadata, kSha256)};
}

std::string describe_values(bool official, const std::string& source) {
  return fmt::format("{} values, from {}", official ? "official" : "other", source);
}

}  // namespace nsvq
