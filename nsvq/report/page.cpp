#include "nsvq/report/page.h"

#include <cstdint>
#include <initializer_list>

#include "nsvq/io/formats/json.h"
#include "nsvq/report/page_files.h"

namespace nsvq {

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((code < 0x20 && c != '\n' && c != '\t' && c != '\r') || code == 0x7f)
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

std::string base64(std::span<const std::byte> bytes) {
  static constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    uint32_t group = std::to_integer<uint32_t>(bytes[i]) << 16;
    if (left > 1) group |= std::to_integer<uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) group |= std::to_integer<uint32_t>(bytes[i + 2]);
    out += alphabet[group >> 18];
    out += alphabet[(group >> 12) & 63];
    out += left > 1 ? alphabet[(group >> 6) & 63] : '=';
    out += left > 2 ? alphabet[group & 63] : '=';
  }
  return out;
}

std::string data_uri(std::string_view mime, std::span<const std::byte> bytes) {
  return "data:" + std::string(mime) + ";base64," + base64(bytes);
}

std::string script_json(const Json& data) {
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

std::string html_page(const Json& data, bool reload) {
  // The page loads nothing from elsewhere, whatever text it is made of.
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
