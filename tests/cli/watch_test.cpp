// `nsvq watch` as a process of its own that is talked to by its socket.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/cli/kill.h"
#include "tests/cli/log_only_run.h"
#include "tests/cli/run.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

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

  /// The whole answer to a request.
  std::string ask(const std::string& path, const std::string& host = "127.0.0.1",
                  const std::string& method = "GET") const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const auto request =
        method + " " + path + " HTTP/1.1\r\nHost: " + host +
        "\r\nContent-Length: 0\r\nAccept-Encoding: gzip, br\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t size = 0; (size = ::recv(socket, part, sizeof part, 0)) > 0;)
      answer.append(part, static_cast<size_t>(size));
    ::close(socket);
    return answer;
  }
  static int status(const std::string& answer) {
    return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
  }
  nlohmann::json json(const std::string& path) const {
    const auto answer = ask(path);
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }

  TemporaryFolder folder_;
  fs::path log_ = folder_ / "log";
  std::optional<Program> program_;
  int port_ = 0;
};

TEST_F(Watch, ServesThePageAndTheRuns) {
  const auto page = ask("/");
  EXPECT_EQ(status(page), 200);
  expect_contains(page, {"\"live\":true", "Content-Type: text/html", "<title>runs</title>"});
  const auto runs = json("/runs").at("runs");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs.at(0).at("name"), "a");
  EXPECT_EQ(json("/run?run=a").at("step"), 1);
  EXPECT_TRUE(json("/codes?run=a").contains("no_codes"));
  put_run(folder_ / "runs" / "b");
  EXPECT_EQ(json("/runs").at("runs").size(), 2u) << "while it goes on";
  const auto second = run({"watch", (folder_ / "runs").string(), "--port", std::to_string(port_)});
  expect_failure(second, 2, {"port " + std::to_string(port_), "taken", "--port"});
}

TEST_F(Watch, NothingElseIsServed) {
  for (const std::string path :
       {"/secret", "/../secret", "/..%2fsecret", "/%2e%2e/secret", "//etc/passwd",
        "/runs/../../secret", "/a/config.yaml", "/run?run=../", "/run?run=..%2f..",
        "/run?run=%2Fetc", "/run?run=a%00", "/run", "/picture?run=a&epoch=../../secret",
        "/picture?run=../secret&epoch=1", "/picture?run=a&epoch=99999999999999999999",
        "/codes?run=/etc"}) {
    const auto answer = ask(path);
    EXPECT_EQ(status(answer), 404) << path;
    EXPECT_EQ(answer.find("secret\n"), answer.npos) << path;
  }
}

TEST_F(Watch, OnlyReadsAreAnswered) {
  for (const auto* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const auto answer = ask("/runs", "127.0.0.1", method);
    EXPECT_EQ(status(answer), 404) << method;
    expect_contains(answer, {"nothing is served there\n"});
  }
  expect_contains(ask("/nothing"), {"nothing is served there\n"});
  EXPECT_EQ(status(ask("/runs", "evil.example", "POST")), 403);
}

TEST_F(Watch, AnswersByItsOwnNamesOnly) {
  for (const auto* own : {"127.0.0.1:80", "localhost:7007", "[::1]:7007", "LocalHost"})
    EXPECT_EQ(status(ask("/", own)), 200) << own;
  for (const auto* foreign :
       {"", "evil.example", "localhost.evil.example:7007", "127.0.0.1.evil.example", "[::1", "[]"})
    EXPECT_EQ(status(ask("/", foreign)), 403) << foreign;
}

}  // namespace
}  // namespace nsvq
