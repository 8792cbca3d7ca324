#include "nsvq/report/page.h"

#include <initializer_list>
#include <string_view>

#include "nsvq/report/html.h"
#include "nsvq/report/page_files.h"

namespace nsvq {

std::string script_json(const nlohmann::ordered_json& data) {
  const std::string text =
      data.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (size_t i = 0; i < text.size(); ++i) {
    // `<` begins </script> and <!--; the other two end a line of JavaScript. They occur in strings
    // alone.
    if (text[i] == '<') {
      out += "\\u003c";
    } else if (text.compare(i, 3, "\u2028") == 0 || text.compare(i, 3, "\u2029") == 0) {
      out += text[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string html_page(const nlohmann::ordered_json& data, bool reload) {
  // Whatever text the page is made of, it loads nothing from elsewhere.
  constexpr auto policy =
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
      "img-src 'self' data:; connect-src 'self'";
  std::string html;
  const auto add = [&](std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) html += part;
  };
  add({"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
       "<meta http-equiv=\"Content-Security-Policy\" content=\"", policy, "\">\n",
       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
       "<link rel=\"icon\" href=\"data:,\">\n",  // a browser would ask for one
       reload ? "<meta http-equiv=\"refresh\" content=\"60\">\n" : "", "<title>",
       escape_html(data.value("title", "")), "</title>\n<style>\n", kPageStyle,
       "</style>\n</head>\n",
       "<body>\n<noscript>This page draws with JavaScript, which is switched off.</noscript>\n",
       "<main></main>\n<script type=\"application/json\" id=\"data\">", script_json(data),
       "</script>\n<script>\n", kPageScript, "</script>\n</body>\n</html>\n"});
  return html;
}

}  // namespace nsvq
