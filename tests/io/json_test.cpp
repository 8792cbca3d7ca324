#include "nsvq/io/formats/json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/files/input_file.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

using nlohmann::json;

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, ParsesWhatNlohmannParses) {
  const std::string text = R"({"a":[1,-2,3.5,"x\"[",null,true],"b":{"a":{}}})";
  EXPECT_EQ(parse_json(text), json::parse(text));
  EXPECT_EQ(parse_json(" 7 "), 7);
}

TEST(Json, DepthIsBounded) {
  EXPECT_EQ(parse_json(nested(32)).size(), 1u);
  EXPECT_EQ(error_of([] { parse_json(nested(33)); }), "nested too deep");
  EXPECT_EQ(error_of([] { parse_json(nested(1'000'000)); }), "nested too deep");
  EXPECT_EQ(error_of([] { parse_json("[[[]]]", 2); }), "nested too deep");
}

TEST(Json, ErrorsAreOneShortLine) {
  EXPECT_EQ(error_of([] { parse_json("[1,"); }), "not valid JSON (at byte 4)");
  EXPECT_EQ(error_of([] { parse_json("1e999"); }), "not valid JSON (a number out of range)");
  EXPECT_EQ(error_of([] { parse_json(R"({"a":1,"b":{"a":2},"a":3})"); }),
            "the name 'a' occurs twice");
  const std::string longest(1'000'000, 'y');
  EXPECT_LT(error_of([&] { parse_json("[" + longest + "]"); }).size(), 100u);
  EXPECT_LT(error_of([&] { parse_json("\"" + longest); }).size(), 100u);
  EXPECT_LT(shown_json(longest).size(), 100u);
  EXPECT_EQ(shown_json(json::array({longest})), "a list");
}

TEST(Json, WholeNumbers) {
  EXPECT_EQ(whole_number(7, "n"), 7);
  EXPECT_EQ(whole_number(-7, "n", -7), -7);
  EXPECT_EQ(error_of([] { whole_number(1.9, "n"); }), "n is 1.9, not a whole number of at least 0");
  EXPECT_EQ(error_of([] { whole_number(8, "n", 1, 7); }), "n is 8, not a whole number from 1 to 7");
  for (const char* wrong :
       {"1.0", "1e30", "-1", "18446744073709551615", "\"1\"", "null", "true", "[1]"})
    EXPECT_NE(error_of([&] { whole_number(parse_json(wrong), "n"); }), "") << wrong;
}

TEST(Json, FilesAreNamed) {
  const TemporaryFolder folder;
  write_text(folder / "deep", nested(100'000));
  EXPECT_EQ(error_of([&] { read_json(folder / "deep"); }),
            "cannot read " + (folder / "deep").string() + ": nested too deep");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { read_json(folder / "pipe"); }).find("not a file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_json(folder / "none"); }).find("none"), std::string::npos);
}

TEST(Json, DeepChecksumsAreRefused) {
  const TemporaryFolder folder;
  write_text(folder / "manifest.json", nested(200'000));
  EXPECT_NE(folder_damage(folder.path())->find("nested too deep"), std::string::npos);
}

TEST(Json, AnObjectOfManyNamesTakesNoLonger) {
  // Each name would be looked for among all before it: minutes.
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"{}\":{{}},", i);
  EXPECT_EQ(parse_json(text + "\"last\":0}").size(), 300'001u);
}

TEST(Json, NoPrefixParses) {
  const std::string whole = R"({"a":[1,-2,3.5e3,"xü\"[",null,true],"b":{"c":{"d":[[]]}}})";
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(error_of([&] { parse_json(whole.substr(0, size)); }), "") << size;
}

TEST(LineReader, LinesOfAnyLength) {
  const TemporaryFolder folder;
  const std::string longer(200'000, 'x');
  write_text(folder / "a", "one\n\n" + longer + "\r\nlast");
  LineReader lines(folder / "a");
  EXPECT_EQ(lines.next(), "one");
  EXPECT_EQ(lines.next(), "");
  EXPECT_EQ(lines.next(), longer + "\r");
  EXPECT_EQ(lines.next(), "last");
  EXPECT_EQ(lines.next(), std::nullopt);
  LineReader cut(folder / "a", 5);
  EXPECT_EQ(cut.next(), "one");
  EXPECT_EQ(cut.next(), "");
  EXPECT_EQ(cut.next(), "xxxxx");
  EXPECT_EQ(cut.next(), "last");
  write_text(folder / "empty", "");
  EXPECT_EQ(LineReader(folder / "empty").next(), std::nullopt);
}

}  // namespace
}  // namespace nsvq
