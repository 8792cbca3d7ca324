#include "markup.h"

#include <fmt/format.h>

#include <cctype>
#include <set>
#include <vector>

namespace nsvq::test {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == ':' || c == '_';
}

class Checker {
 public:
  explicit Checker(std::string_view markup) : text_(markup) {}

  std::string run() {
    if (text_.starts_with("<!DOCTYPE html>")) at_ = 15;
    while (at_ < text_.size() && error_.empty()) {
      if (text_[at_] == '<')
        tag();
      else
        character();
    }
    if (error_.empty() && !open_.empty()) fail("never closed: " + open_.back());
    return error_;
  }

 private:
  void fail(const std::string& what) {
    if (error_.empty())
      error_ = fmt::format("{} near \"{}\"", what, text_.substr(at_ < 40 ? 0 : at_ - 40, 80));
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  void spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  void character() {
    const auto code = static_cast<unsigned char>(text_[at_]);
    if (code < 0x20 && code != '\n' && code != '\t' && code != '\r') fail("control character");
    if (text_[at_++] != '&') return;
    const size_t end = text_.find(';', at_);
    static const std::set<std::string_view> entities = {"amp", "lt", "gt", "quot", "#39"};
    if (end == text_.npos || !entities.contains(text_.substr(at_, end - at_))) fail("bare &");
  }

  void tag() {
    ++at_;
    if (take('/')) {
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed)
        fail("</" + closed + "> closes " + (open_.empty() ? "nothing" : open_.back()));
      else
        open_.pop_back();
      if (!take('>')) fail("expected >");
      return;
    }
    const std::string opened = name();
    attributes();
    if (take('/')) {
      if (!take('>')) fail("expected />");
      return;
    }
    if (!take('>')) fail("expected > of " + opened);
    open_.push_back(opened);
  }

  void attributes() {
    std::set<std::string> seen;
    for (spaces(); error_.empty() && at_ < text_.size() && is_name(text_[at_]); spaces()) {
      const std::string key = name();
      if (!seen.insert(key).second) fail("attribute " + key + " twice");
      if (!take('=') || !take('"')) return fail("unquoted attribute " + key);
      while (error_.empty() && at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '<') return fail("< in attribute " + key);
        character();
      }
      if (!take('"')) fail("endless attribute " + key);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  std::string error_;
};

}  // namespace

std::string markup_error(std::string_view markup) { return Checker(markup).run(); }

int count(std::string_view text, std::string_view part) {
  int n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace nsvq::test
