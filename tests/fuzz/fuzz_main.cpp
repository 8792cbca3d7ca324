// The targets (target.h) under libFuzzer: NSVQ_FUZZ_TARGET names the one to fuzz. Without a fuzzer:
//   fuzz_readers --list           their names
//   fuzz_readers --seeds FOLDER   writes FOLDER/TARGET/SEED for every target
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nsvq/core/log.h"
#include "nsvq/io/files/file.h"
#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace nsvq {

namespace {

FuzzTarget chosen;

void list_targets() {
  for (const auto& target : fuzz_targets()) fmt::print("{}\n", target.name);
}

void write_seeds(const std::filesystem::path& folder) {
  for (const auto& target : fuzz_targets()) {
    for (const auto& [name, bytes] : target.seeds()) write_file(folder / target.name / name, bytes);
  }
}

void choose_target(const char* name) {
  const auto targets = fuzz_targets();
  const auto found = std::ranges::find_if(
      targets, [&](const auto& target) { return name && std::strcmp(target.name, name) == 0; });
  if (found == targets.end()) {
    fmt::print(stderr, "set NSVQ_FUZZ_TARGET to one that --list lists\n");
    std::exit(2);
  }
  chosen = *found;
}

}  // namespace

}  // namespace nsvq

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  if (*count > 1 && std::strcmp((*words)[1], "--list") == 0) {
    nsvq::list_targets();
    std::exit(0);
  }
  if (*count > 2 && std::strcmp((*words)[1], "--seeds") == 0) {
    nsvq::write_seeds((*words)[2]);
    std::exit(0);
  }
  nsvq::choose_target(std::getenv("NSVQ_FUZZ_TARGET"));
  nsvq::set_quiet(true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nsvq::accepts(nsvq::chosen, std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (!nsvq::chosen.mend || seed % 4 == 0) return size;
  const auto span = std::as_writable_bytes(std::span(data, size));
  nsvq::Bytes bytes(span.begin(), span.end());
  nsvq::chosen.mend(bytes);
  std::ranges::copy(bytes, span.begin());
  return size;
}
