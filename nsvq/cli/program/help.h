#pragma once

#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

namespace nsvq {

/// `nsvq help COMMAND` in lines of at most 100 columns, without CLI11's types and ranges.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string title, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
};

}  // namespace nsvq
