// `nsvq watch` as a process of its own that is talked to by its socket.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "nsvq/cli/program/page_requests.h"
#include "nsvq/cli/program/page_server.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/cli/kill.h"
#include "tests/cli/log_only_run.h"
#include "tests/cli/run.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

int connected(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

class Watch : public ::testing::Test {
 protected:
  void SetUp() override {
    put_run(folder_ / "runs" / "a");
    write_text(folder_ / "secret", "secret\n");
    FolderWatch changes(folder_.path());
    program_.emplace(std::vector<std::string>{"watch", (folder_ / "runs").string(), "--port", "0"},
                     log_.string());
    std::string text;
    do {
      std::error_code ignored;
      if (fs::exists(log_, ignored)) text = read_text(log_);
      const auto at = text.find("http://127.0.0.1:");
      if (text.ends_with('\n') && at != text.npos) port_ = std::stoi(text.substr(at + 17));
    } while (port_ == 0 && program_->wait_for_change(changes));
    ASSERT_GT(port_, 0) << text;
  }
  void TearDown() override {
    program_->kill(SIGINT);
    const int status = program_->wait();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << read_text(log_);
  }

  /// The whole answer to a request's first line.
  std::string ask(const std::string& line, const std::string& host = "127.0.0.1") const {
    const int socket = connected(port_);
    const auto request = line + " HTTP/1.1\r\n" + (host.empty() ? "" : "Host: " + host + "\r\n") +
                         "Connection: close\r\n\r\n";
    EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t size = 0; (size = ::recv(socket, part, sizeof part, 0)) > 0;)
      answer.append(part, size);
    ::close(socket);
    return answer;
  }
  static int status(const std::string& answer) {
    return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
  }
  static std::string body(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  TemporaryFolder folder_;
  fs::path log_ = folder_ / "log";
  std::optional<Program> program_;
  int port_ = 0;
};

TEST_F(Watch, ServesThePageAndTheRuns) {
  const auto page = ask("GET /");
  EXPECT_EQ(status(page), 200);
  EXPECT_NE(page.find("\"live\":true"), page.npos);
  EXPECT_NE(page.find("Content-Type: text/html"), page.npos);
  EXPECT_NE(page.find("<title>runs</title>"), page.npos) << "the folder's name";
  const auto runs = nlohmann::json::parse(body(ask("GET /runs"))).at("runs");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs.at(0).at("name"), "a");
  EXPECT_EQ(nlohmann::json::parse(body(ask("GET /run?run=a"))).at("step"), 1);
  put_run(folder_ / "runs" / "b");
  EXPECT_EQ(nlohmann::json::parse(body(ask("GET /runs"))).at("runs").size(), 2u)
      << "while it goes on";
}

TEST_F(Watch, NothingElseIsServed) {
  for (const std::string path :
       {"/secret", "/../secret", "/..%2fsecret", "/%2e%2e/secret", "//etc/passwd",
        "/runs/../../secret", "/a/config.yaml", "/run?run=../", "/run?run=..%2f..",
        "/run?run=%2Fetc", "/run?run=a%00", "/run", "/picture?run=a&epoch=../../secret",
        "/picture?run=../secret&epoch=1", "/picture?run=a&epoch=99999999999999999999",
        "/codes?run=/etc"}) {
    const auto answer = ask("GET " + path);
    EXPECT_EQ(status(answer), 404) << path;
    EXPECT_EQ(answer.find("secret\n"), answer.npos) << path;
  }
}

TEST_F(Watch, SendsWholePagesOnly) {
  EXPECT_EQ(status(ask("GET /", "127.0.0.1\r\nRange: bytes=0-,0-,0-")), 416);
}

// One that sends a byte now and then, and never ends its request.
TEST(PageServerTest, EndsThoughAClientGoesOn) {
  const TemporaryFolder folder;
  RunCatalog runs(folder.path());
  auto server = std::make_unique<PageServer>(runs, "127.0.0.1", 0);
  const auto address = server->address();
  const int socket = connected(std::stoi(address.substr(address.rfind(':') + 1)));
  constexpr int most = 300;
  std::atomic<int> sent = 0;
  std::thread client([&] {
    while (sent < most && ::send(socket, "G", 1, MSG_NOSIGNAL) == 1) {
      ++sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  while (sent == 0) std::this_thread::yield();
  server.reset();
  client.join();
  ::close(socket);
  EXPECT_LT(sent, most);
}

TEST_F(Watch, PacksByGzipAlone) {
  const auto packed_by = [&](const std::string& offered) {
    const auto answer = ask("GET /", "127.0.0.1\r\nAccept-Encoding: " + offered);
    EXPECT_EQ(status(answer), 200);
    const auto at = answer.find("Content-Encoding: ");
    return at == answer.npos ? std::string()
                             : answer.substr(at + 18, answer.find("\r\n", at) - at - 18);
  };
  EXPECT_EQ(packed_by("gzip, deflate, br, zstd"), "gzip");
  EXPECT_EQ(packed_by("br"), "");
}

// 64 MiB of headers, and of a line, that do not end.
TEST_F(Watch, ARequestWithoutEndIsCutOff) {
  for (const std::string begin : {"GET / HTTP/1.1\r\n", "GET /"}) {
    const int socket = connected(port_);
    const auto piece =
        begin.ends_with('\n') ? "a: " + std::string(1000, 'x') + "\r\n" : std::string(1000, 'x');
    constexpr size_t most = 64 << 20;
    size_t sent = 0;
    auto rest = begin;
    for (ssize_t done = 0; sent < most; sent += static_cast<size_t>(done), rest = piece) {
      if ((done = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL)) <= 0) break;
    }
    ::close(socket);
    EXPECT_LT(sent, most) << begin;
    EXPECT_EQ(status(ask("GET /")), 200) << "for others it goes on";
  }
}

TEST_F(Watch, IsReadOnlyAndKnowsItsName) {
  for (const auto* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
    EXPECT_EQ(status(ask(method + std::string(" /"))), 405) << method;
  EXPECT_EQ(status(ask("GET /", "evil.example")), 403);
  EXPECT_EQ(status(ask("GET /", "127.0.0.1.evil.example:80")), 403);
  EXPECT_EQ(status(ask("GET /", "")), 403);
  EXPECT_EQ(status(ask("GET /", "localhost:" + std::to_string(port_))), 200);
}

TEST_F(Watch, APortThatIsTakenIsOneLine) {
  const auto second = run({"watch", (folder_ / "runs").string(), "--port", std::to_string(port_)});
  expect_failure(second, 2, {"port " + std::to_string(port_), "taken", "--port"});
  expect_failure(run({"watch", (folder_ / "nowhere").string()}), 2, {"no such folder"});
}

TEST(PageServer, OwnHosts) {
  for (const auto* own :
       {"127.0.0.1", "127.0.0.1:80", "localhost:7007", "[::1]:7007", "192.168.0.7:1"})
    EXPECT_TRUE(is_own_host(own, "127.0.0.1")) << own;
  for (const auto* other :
       {"", "example.com", "localhost.example.com:7007", "127.0.0.1.nip.io", "[::1", "[]"})
    EXPECT_FALSE(is_own_host(other, "127.0.0.1")) << other;
  EXPECT_TRUE(is_own_host("gpu.lan:7007", "gpu.lan"));
  EXPECT_TRUE(is_own_host("GPU.lan:7007", "gpu.LAN")) << "names have no case";
  EXPECT_TRUE(is_own_host("LocalHost", "127.0.0.1"));
}

}  // namespace
}  // namespace nsvq
