#include "nsvq/io/formats/piped_tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/decompress.h"
#include "nsvq/io/formats/tar_headers.h"
#include "nsvq/io/processes/command_output.h"

namespace nsvq {

namespace {

/// A command's output as TarInput.
class CommandInput : public TarInput {
 public:
  explicit CommandInput(CommandOutput& output) : output_(output) {}

  size_t read(int64_t offset, char* to, size_t size) override {
    while (offset_ < offset && !ended_) {
      const auto skipped = std::min<int64_t>(offset - offset_, std::ssize(piece_));
      read_on({piece_.data(), static_cast<size_t>(skipped)});
    }
    if (offset_ != offset) return 0;
    const bool first = offset_ == 0;
    const size_t got = read_on({to, size});
    compressed_ = compressed_ || (first && is_compressed(std::as_bytes(std::span(to, got))));
    return got;
  }
  /// Reads to the end; false if there is anything but zeros, which fill a tar's last blocks.
  bool only_zeros_left() {
    bool zeros = true;
    while (!ended_ && zeros) {
      const std::span piece(piece_.data(), read_on(piece_));
      zeros = std::all_of(piece.begin(), piece.end(), [](char c) { return c == 0; });
    }
    return zeros;
  }
  bool ended() const { return ended_; }
  bool compressed() const { return compressed_; }

 private:
  size_t read_on(std::span<char> bytes) {
    const size_t got = output_.read(bytes);
    offset_ += static_cast<int64_t>(got);
    ended_ = got < bytes.size();
    return got;
  }

  CommandOutput& output_;
  int64_t offset_ = 0;
  bool ended_ = false, compressed_ = false;
  std::array<char, 1 << 16> piece_{};
};

[[noreturn]] void fail_command(const std::string& command, const std::string& status,
                               const std::string& why) {
  throw CommandFailure(fmt::format("{}: {}{}{}", shown_command(command), status,
                                   status.empty() || why.empty() ? "" : "; ", why));
}

/// Throws why the output is invalid and, if the command ended by itself, its status.
[[noreturn]] void fail_output(const std::string& command, CommandOutput& output,
                              const CommandInput& input, std::string why) {
  if (input.compressed()) why = "its output is compressed; add | gzip -dc or | zstd -dc";
  fail_command(command, input.ended() ? output.finish().text : "", why);
}

}  // namespace

std::string shown_command(const std::string& command) { return quote("pipe:" + command, 300); }

void visit_piped_tar(const std::string& command, const std::stop_token& stop,
                     const VisitEntry& visit) {
  CommandOutput output(command);
  const std::stop_callback stopper(stop, [&] { output.stop(); });
  CommandInput input(output);
  TarScanner scanner("its output", input, TarScanner::kUnknown);
  const auto next_entry = [&] {
    try {
      return scanner.next();
    } catch (const UserError& error) {
      fail_output(command, output, input, error.what());
    }
  };
  while (const auto entry = next_entry()) {
    const auto contents = [&] {
      std::vector<std::byte> bytes(static_cast<size_t>(entry->size));
      if (input.read(entry->offset, reinterpret_cast<char*>(bytes.data()), bytes.size()) <
          bytes.size()) {
        fail_output(command, output, input, "its output ends within " + quote(entry->name));
      }
      return bytes;
    };
    if (!visit(*entry, contents)) return;
  }
  if (const auto links = scanner.hard_links().size() + scanner.symbolic_links(); links > 0) {
    log("{}: skipped {} link{}; links in a stream cannot be followed", shown_command(command),
        links, links == 1 ? "" : "s");
  }
  if (!input.only_zeros_left()) {
    fail_command(command, "", "something follows the end of its archive; write one tar a command");
  }
  if (const auto end = output.finish(); !end.success) fail_command(command, end.text, "");
}

}  // namespace nsvq
