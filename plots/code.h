// Text in a language that another program reads: gnuplot, HTML, Markdown, LaTeX. Each language has a type, so that text
// from files gets in only through a function that makes it fit for the language.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace attest {

template <class Language>
class Code {
 public:
  Code() = default;
  /// A literal of this program, and no buffer that is filled while it runs.
  template <std::size_t n>
  Code(const char (&literal)[n]) : text_(literal) {}
  template <std::size_t n>
  Code(char (&buffer)[n]) = delete;

  /// For the functions of the language alone. `text` is fit for it.
  static Code fit(std::string text) {
    Code code;
    code.text_ = std::move(text);
    return code;
  }

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  Code& operator+=(const Code& more) {
    text_ += more.text_;
    return *this;
  }
  friend Code operator+(Code a, const Code& b) { return a += b; }
  bool operator==(const Code&) const = default;

 private:
  std::string text_;
};

/// The types with which a pattern of a language may be filled.
template <class Value, class Language>
concept FitFor = std::same_as<Value, Code<Language>> || std::integral<Value> || std::floating_point<Value>;

template <class Language, FitFor<Language>... Values>
Code<Language> code(fmt::format_string<const Values&...> pattern, const Values&... values) {
  return Code<Language>::fit(fmt::format(pattern, values...));
}

/// `parts` with `separator` between them.
template <class Language, class Parts>
Code<Language> joined(const Parts& parts, const Code<Language>& separator) {
  Code<Language> all;
  bool first = true;
  for (const Code<Language>& part : parts) {
    if (!first) all += separator;
    all += part;
    first = false;
  }
  return all;
}

struct GnuplotLanguage;
struct HtmlLanguage;
using Gnuplot = Code<GnuplotLanguage>;
using Html = Code<HtmlLanguage>;
using Latex = Code<struct LatexLanguage>;
using Markdown = Code<struct MarkdownLanguage>;

template <FitFor<GnuplotLanguage>... Values>
Gnuplot gnuplot(fmt::format_string<const Values&...> pattern, const Values&... values) {
  return code<GnuplotLanguage>(pattern, values...);
}
template <FitFor<HtmlLanguage>... Values>
Html html(fmt::format_string<const Values&...> pattern, const Values&... values) {
  return code<HtmlLanguage>(pattern, values...);
}

/// Control characters below the space become spaces.
std::string on_one_line(std::string text);

/// `text` as a string constant. Control characters become spaces; nothing in it is interpreted.
Gnuplot gnuplot_text(std::string_view text);

/// Text for the content of an element, and for an attribute in double quotes.
Html html_text(std::string_view text);

/// Characters with a meaning are escaped; Greek letters and signs that its fonts lack are written as commands.
Latex latex_text(std::string_view text);

/// Text for a paragraph. What would begin a tag, a link, code, emphasis or an entity is escaped; line breaks become
/// spaces.
Markdown markdown_text(std::string_view text);
/// Text for a cell of a table: bars and all underscores are escaped, too.
Markdown markdown_cell(std::string_view text);

}  // namespace attest

template <class Language>
struct fmt::formatter<attest::Code<Language>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const attest::Code<Language>& code, fmt::format_context& context) const {
    return std::copy(code.text().begin(), code.text().end(), context.out());
  }
};
