#include "nsvq/data/streams/pipe_commands.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/patterns.h"

namespace nsvq {

namespace {

constexpr std::string_view kPipe = "pipe:";
constexpr size_t kMostCommands = 1'000'000, kMostBytes = size_t{1} << 28;

bool is_pipe(std::string_view source) { return source.starts_with(kPipe); }

bool is_number_range(std::string_view inside) {
  const size_t dots = inside.find("..");
  return dots != std::string_view::npos && parse_decimal(inside.substr(0, dots)) &&
         parse_decimal(inside.substr(dots + 2));
}

/// The position after the braces that open at `open` if they are expanded, else `open`.
size_t end_of_pattern(std::string_view command, size_t open) {
  if (open > 0 && command[open - 1] == '$') return open;
  int depth = 0;
  for (size_t i = open; i < command.size(); ++i) {
    if (command[i] == '{') ++depth;
    if (command[i] != '}' || --depth > 0) continue;
    const auto inside = command.substr(open + 1, i - open - 1);
    const bool plain = inside.find_first_of(" \t\n'\"`$;|&()<>\\=") == std::string_view::npos;
    return plain && (is_number_range(inside) || split_list(inside).size() > 1) ? i + 1 : open;
  }
  return open;
}

std::vector<std::string> expand_command(const std::string& command) {
  std::vector<std::string> commands = {""};
  const auto append = [&](std::string_view text) {
    for (auto& one : commands) one += text;
  };
  size_t at = 0;
  while (at < command.size()) {
    const size_t open = std::min(command.find('{', at), command.size());
    append(std::string_view(command).substr(at, open - at));
    if (open == command.size()) break;
    const size_t end = end_of_pattern(command, open);
    if (end == open) {
      append("{");
      at = open + 1;
      continue;
    }
    const auto members = expand_braces(command.substr(open, end - open));
    const size_t count = commands.size() * members.size();
    if (count > kMostCommands || count * command.size() > kMostBytes) {
      throw UserError("{} stands for too many commands", quote(command, 200));
    }
    std::vector<std::string> longer;
    for (const auto& one : commands) {
      for (const auto& member : members) longer.push_back(one + member);
    }
    commands = std::move(longer);
    at = end;
  }
  return commands;
}

}  // namespace

bool any_pipe(const Sources& sources) {
  return std::any_of(sources.items.begin(), sources.items.end(), is_pipe);
}

std::vector<std::string> commands_of(const Sources& sources) {
  if (!sources.pipes_allowed) {
    const auto item = std::find_if(sources.items.begin(), sources.items.end(), is_pipe);
    throw UserError(
        "{} is a command that stored settings name; to run it give --allow-pipe, or name the "
        "source yourself",
        quote(*item, 200));
  }
  std::vector<std::string> all;
  for (const auto& item : sources.items) {
    if (!is_pipe(item)) {
      throw UserError("{} stands beside pipe: sources, which can only be joined with pipe: sources",
                      quote(item, 200));
    }
    const auto command = NamedPart(item).source.substr(kPipe.size());
    if (command.find_first_not_of(" \t\n") == std::string::npos) {
      throw UserError("no command after pipe:; give one that writes a tar, as in 'pipe:cat a.tar'");
    }
    auto commands = expand_command(command);
    std::move(commands.begin(), commands.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace nsvq
