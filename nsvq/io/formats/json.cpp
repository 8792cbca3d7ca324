#include "nsvq/io/formats/json.h"

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/input_file.h"

namespace nsvq {

namespace {

using nlohmann::json;

/// JSON of our own is far shorter; a manifest lists some hundred bytes for thousands of images.
constexpr uint64_t kLongestJson = uint64_t{1} << 28;

/// Checks the values as they are parsed, and keeps none. (A callback of json::parse could do the
/// same, but then each object that ends costs a search through its parent.)
class JsonCheck : public nlohmann::json_sax<json> {
 public:
  explicit JsonCheck(int deepest) : deepest_(deepest) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return deeper(); }
  bool end_array() override { return shallower(); }
  bool start_object(size_t) override { return deeper(); }
  bool end_object() override { return shallower(); }
  bool key(string_t& name) override {
    if (names_.back().insert(name).second) return true;
    throw UserError("the name {} occurs twice", quote(name));
  }
  bool parse_error(size_t byte, const std::string&, const json::exception& error) override {
    if (dynamic_cast<const json::parse_error*>(&error))
      throw UserError("not valid JSON (at byte {})", byte);
    throw UserError("not valid JSON (a number out of range)");
  }

 private:
  bool deeper() {
    names_.emplace_back();
    if (std::ssize(names_) > deepest_) throw UserError("nested too deep");
    return true;
  }
  bool shallower() {
    names_.pop_back();
    return true;
  }

  int deepest_;
  std::vector<std::set<std::string>> names_;  // per open object or array (no names)
};

}  // namespace

json parse_json(std::string_view text, int deepest) {
  JsonCheck check(deepest);
  json::sax_parse(text.begin(), text.end(), &check);
  return json::parse(text.begin(), text.end());
}

json read_json(const std::filesystem::path& path) {
  const InputFile file(path);
  try {
    if (file.size() > kLongestJson) throw UserError("{} bytes are too many", file.size());
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return parse_json(text);
  } catch (const UserError& error) {
    throw UserError("cannot read {}: {}", path.string(), error.what());
  }
}

int64_t whole_number(const json& value, std::string_view name, int64_t least, int64_t most) {
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    throw UserError("{} is {}, not a whole number {}", name, shown_json(value),
                    most == INT64_MAX ? fmt::format("of at least {}", least)
                                      : fmt::format("from {} to {}", least, most));
  }
  return value.get<int64_t>();
}

std::string plain_words(const nlohmann::json::exception& error) {
  const std::string text = error.what();  // "[json.exception.type_error.304] cannot ..."
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string shown_json(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace nsvq
