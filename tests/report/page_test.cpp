#include "nsvq/report/page.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>

namespace nsvq {
namespace {

std::string base64_of(const std::string& text) { return base64(std::as_bytes(std::span(text))); }

TEST(Html, EscapesWhatMarkupReads) {
  EXPECT_EQ(escape_html("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_html(""), "");
  EXPECT_EQ(escape_html("tab\tline\nµ"), "tab\tline\nµ");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

TEST(Html, Base64OfTheRfc) {
  EXPECT_EQ(base64_of(""), "");
  EXPECT_EQ(base64_of("f"), "Zg==");
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(base64_of("foo"), "Zm9v");
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_of("\xff\xfe\xfb"), "//77");
  const std::string text = "foo";
  EXPECT_EQ(data_uri("image/png", std::as_bytes(std::span(text))), "data:image/png;base64,Zm9v");
}

}  // namespace
}  // namespace nsvq
