// Requests to the server of `nsvq watch` as they come from a socket, without one.
#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "nsvq/cli/program/page_requests.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/report/run_catalog.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

constexpr auto kSecret = "of another folder";

/// A connection: a request, and the answer to it. Nothing says `override`: other versions of the
/// library ask for more or fewer of these.
class Connection : public httplib::Stream {
 public:
  explicit Connection(std::span<const std::byte> request) : rest_(request) {}

  bool is_readable() const { return true; }
  bool wait_readable() const { return true; }
  bool is_writable() const { return true; }
  bool wait_writable() const { return true; }
  ssize_t read(char* to, size_t size) {
    const auto count = std::min(size, rest_.size());
    if (count > 0) std::memcpy(to, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) {
    answer_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const { ip = "127.0.0.1", port = 1; }
  void get_local_ip_and_port(std::string& ip, int& port) const { ip = "127.0.0.1", port = 2; }
  socket_t socket() const { return 0; }
  time_t duration() const { return 0; }

  const std::string& answer() const { return answer_; }

 private:
  std::span<const std::byte> rest_;
  std::string answer_;
};

class Answers : public httplib::Server {
 public:
  template <typename Stream>
  void answer(Stream& stream) {
    bool closed = false;
    if constexpr (requires { this->process_request(stream, true, closed, nullptr); }) {
      this->process_request(stream, true, closed, nullptr);
    } else {
      this->process_request(stream, "127.0.0.1", 1, "127.0.0.1", 2, true, closed, nullptr);
    }
  }
};

/// Two runs that were never trained, one with a picture, and a file beside them.
class Runs {
 public:
  Runs() {
    write_text(folder_ / "secret", kSecret);
    for (const char* name : {"runs/a", "runs/b c/d&e"}) {
      const auto run = folder_ / name;
      write_text(run / "config.yaml", "seed: 1\n");
      write_text(run / "metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n");
      write_text(run / "secret", kSecret);
    }
    const Image picture{1, 1, {1, 2, 3}};
    std::filesystem::create_directories(folder_ / "runs/a/samples");
    write_file(folder_ / "runs/a/samples/epoch-1.png", encode_png(picture));
    catalog_ = std::make_unique<RunCatalog>(folder_ / "runs");
    answer_page_requests(server_, *catalog_, "127.0.0.1");
  }
  std::string answer(std::span<const std::byte> request) {
    Connection connection(request);
    server_.answer(connection);
    return connection.answer();
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<RunCatalog> catalog_;
  Answers server_;
};

void answer_request(std::span<const std::byte> request) {
  static Runs runs;
  const auto answer = runs.answer(request);
  if (answer.find(kSecret) != std::string::npos) {
    throw std::logic_error("a file was sent that is no part of the page");
  }
  if (answer.substr(0, 13) != "HTTP/1.1 200 ") throw UserError("{}", answer.substr(0, 40));
}

std::map<std::string, Bytes> request_seeds() {
  std::map<std::string, Bytes> seeds;
  const auto add = [&](const char* name, const std::string& line, const std::string& headers) {
    seeds[name] = bytes_of(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n");
  };
  add("page", "GET /", "Accept-Encoding: gzip, br\r\nConnection: close\r\n");
  add("plain", "GET /", "Accept-Encoding: br\r\n");
  add("head", "HEAD /runs", "");
  add("runs", "GET /runs", "Accept-Encoding: gzip\r\n");
  add("run", "GET /run?run=a", "");
  add("escaped", "GET /run?x=1&run=b%20c%2fd%26e", "");
  add("codes", "GET /codes?run=a", "");
  add("picture", "GET /picture?run=a&epoch=1", "Content-Length: 0\r\n");
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> page_targets() { return {{"http", answer_request, request_seeds}}; }

}  // namespace nsvq
