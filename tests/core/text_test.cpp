#include "nsvq/core/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nsvq/core/lookup.h"

using namespace nsvq;

TEST(Text, EditDistanceCountsSlips) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("epoch", "epochs"), 1u);
  EXPECT_EQ(edit_distance("ephocs", "epochs"), 2u);
  EXPECT_EQ(edit_distance("wdith", "width"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("Width", "width"), 0u);
}

TEST(Text, EditDistanceIsSymmetric) {
  const std::vector<std::string> words = {"",    "a",   "ab",           "ba",
                                          "abc", "acb", "train.epochs", "epochs"};
  for (const auto& a : words)
    for (const auto& b : words)
      EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << " " << b;
}

TEST(Text, NearestTakesTheFirstOfEquals) {
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("vg", {"vq", "va", "nsvq"}), "vq");
  EXPECT_EQ(nearest("fsk", {"vq", "fsq", "lfq"}), "fsq");
  EXPECT_EQ(nearest(std::string(100000, 'a'), {"b", "a"}), "a");
}

TEST(Text, SuggestsOnlyCloseWords) {
  EXPECT_EQ(did_you_mean("centre", {"random", "center"}), "; did you mean 'center'?");
  EXPECT_EQ(did_you_mean("elephant", {"random", "center"}), "");
  EXPECT_EQ(did_you_mean("", {"random"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
  const std::vector<std::string> options = {"--data", "--batch-size", "--best"};
  EXPECT_EQ(did_you_mean("--batch", options), "; did you mean '--batch-size'?");
  EXPECT_EQ(did_you_mean("--dta", options), "; did you mean '--data'?");
  EXPECT_EQ(did_you_mean("train", {"train.epochs", "train.steps"}), "") << "one of many";
  // None in a word of two letters, one in three, two in more.
  EXPECT_EQ(did_you_mean("tpu", {"cuda"}), "");
  EXPECT_EQ(did_you_mean("simm", {"psnr", "ssim"}), "; did you mean 'ssim'?");
  EXPECT_EQ(did_you_mean("gelu", {"relu", "silu"}), "; did you mean 'relu'?");
  EXPECT_EQ(did_you_mean("seed", {"steps"}), "");
  EXPECT_EQ(did_you_mean("preciion", {"precision"}), "; did you mean 'precision'?");
  EXPECT_EQ(did_you_mean("train.device", {"train.metrics"}), "");
  EXPECT_EQ(did_you_mean("ab", {"ac"}), "");
}

TEST(Text, OneIsNotManyOfThem) {
  EXPECT_EQ(count_of(0, "image"), "0 images");
  EXPECT_EQ(count_of(1, "image"), "1 image");
  EXPECT_EQ(count_of(size_t{20}, "image"), "20 images");
}

TEST(Text, QuoteStaysOnOneLine) {
  EXPECT_EQ(quote(""), "''");
  EXPECT_EQ(quote("plain"), "'plain'");
  EXPECT_EQ(quote("a\nb\tc"), "'a\\x0ab\\x09c'");
  EXPECT_EQ(quote("caf\xc3\xa9"), "'caf\xc3\xa9'");
  EXPECT_EQ(quote("\xff\x01"), "'\\xff\\x01'");
  EXPECT_EQ(quote(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(quote(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
}

TEST(Text, FindsWhereTextEnds) {
  for (const std::string good : {"", "a\tb\r\n", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_EQ(text_prefix(good), good.size()) << good;
  const std::vector<std::string> bad = {std::string(1, '\0'),
                                        "\x04",
                                        "\x7f",
                                        "\x80",
                                        "\xc0\xaf",
                                        "\xc3",
                                        "\xc2\x85",
                                        "\xed\xa0\x80",
                                        "\xe0\x80\x80",
                                        "\xf0\x80\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf4\x90\x80\x80"};
  for (const auto& bytes : bad) EXPECT_EQ(text_prefix("ok" + bytes + "z"), 2u) << quote(bytes);
}

TEST(Decimal, DigitsAlone) {
  EXPECT_EQ(parse_decimal("0"), 0);
  EXPECT_EQ(parse_decimal("999999999999999999"), 999999999999999999);
  for (const auto* bad : {"", "-1", "+1", " 1", "1 ", "0x1", "1000000000000000000"}) {
    EXPECT_EQ(parse_decimal(bad), std::nullopt) << bad;
  }
}

TEST(Lookup, FindsAnEntryOrNamesTheNearest) {
  struct Entry {
    std::string name;
    int value;
  };
  const std::vector<Entry> table = {{"psnr", 1}, {"ssim", 2}};
  EXPECT_EQ(find_named(table, "metric", "ssim").value, 2);
  const auto error = [&](const std::string& name, const std::string& key) -> std::string {
    try {
      find_named(table, "metric", name, key);
    } catch (const UserError& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("psrn", ""),
            "unknown metric 'psrn'; did you mean 'psnr'? (there are: psnr, ssim)");
  EXPECT_EQ(error("elephant", "train.metrics"),
            "train.metrics: unknown metric 'elephant' (there are: psnr, ssim)");
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("caf\u00e9 \u4e2d\t100 %"), "caf\u00e9 \u4e2d\t100 %");
  EXPECT_EQ(printable("a\nb\r\x1b[2J\x7f"), "a\\x0ab\\x0d\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "an escape sequence's start as one character";
  EXPECT_EQ(printable("x\u202egpj.exe"), "x\\xe2\\x80\\xaegpj.exe");
  EXPECT_EQ(printable("\u2028\u2066\u061c"), "\\xe2\\x80\\xa8\\xe2\\x81\\xa6\\xd8\\x9c");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
}
