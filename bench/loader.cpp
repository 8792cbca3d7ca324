// Images per second from JPEG shards to training batches.
//   bench_loader [TAR_PATTERN] [SIZE=128] [THREADS=1]   without a pattern: shards made on the spot
//   bench_loader --make FOLDER                          only makes those shards
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/sources/dead_leaves.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/codecs.h"

namespace {

namespace fs = std::filesystem;

/// A USTAR header and the content, padded to whole blocks.
std::string tar_entry(const std::string& name, const std::string& content) {
  char header[512] = {};
  std::snprintf(header, 100, "%s", name.c_str());
  std::snprintf(header + 100, 8, "%07o", 0644);
  std::snprintf(header + 124, 12, "%011o", static_cast<unsigned>(content.size()));
  std::snprintf(header + 136, 12, "%011o", 0);
  std::memcpy(header + 257, "ustar\00000", 8);
  header[156] = '0';
  std::memset(header + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header + 148, 8, "%06o", sum);
  std::string entry(header, sizeof header);
  entry += content;
  return entry.append((512 - content.size() % 512) % 512, '\0');
}

/// A picture of the size of an ImageNet photograph.
std::string landscape_jpeg(int64_t index) {
  nsvq::Image image = nsvq::dead_leaves(0, index, 500);
  image.height = 375;
  image.pixels.resize(size_t{500} * 375 * 3);
  const auto bytes = nsvq::encode_jpeg(image, 90);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void make_shards(const fs::path& folder) {
  for (int shard = 0; shard < 2; ++shard) {
    std::string tar;
    for (int i = 0; i < 200; ++i) {
      tar += tar_entry(fmt::format("{:04}.jpg", i), landscape_jpeg(200 * shard + i));
    }
    tar.append(1024, '\0');
    nsvq::write_text(folder / fmt::format("leaves-{:02}.tar", shard), tar);
  }
}

void measure(const std::string& pattern, int size, int threads) {
  nsvq::LoaderOptions options;
  options.transform.size = size;
  options.shuffle = false;
  options.threads = threads;
  nsvq::Loader loader(nsvq::open_source(pattern), options);
  const auto pass = [&loader](int64_t epoch) {
    int64_t images = 0;
    loader.start(epoch);
    while (const auto batch = loader.next()) images += std::ssize(batch->indices);
    return images;
  };
  pass(0);  // fills the page cache
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  double seconds = 0;
  int64_t images = 0;
  for (int64_t epoch = 1; seconds < 5; ++epoch) {
    images += pass(epoch);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  const auto count = static_cast<double>(images);
  std::printf("%.0f images/s, %.0f per CPU second\n", count / seconds, count / cpu_seconds);
}

int run(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--make") {
    make_shards(argv[2]);
    return 0;
  }
  const int size = argc > 2 ? std::atoi(argv[2]) : 128;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  if (argc > 1) {
    measure(argv[1], size, threads);
    return 0;
  }
  const nsvq::TemporaryFolder folder;
  make_shards(folder.path());
  measure(folder / "leaves-*.tar", size, threads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_loader: %s\n", error.what());
    return 2;
  }
}
