// Makes text fit for gnuplot, HTML, LaTeX and Markdown.
#include "plots/code.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace attest {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;

template <std::size_t n>
std::string replaced(std::string_view text, const std::array<Replacement, n>& replacements) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Replacement* found = nullptr;
    for (const Replacement& replacement : replacements)
      if (text.starts_with(replacement.first)) found = &replacement;
    result += found ? found->second : text.substr(0, 1);
    text.remove_prefix(found ? found->first.size() : 1);
  }
  return result;
}

constexpr std::array<Replacement, 5> kHtml = {
    {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}}};

constexpr std::array<Replacement, 29> kLatex = {{{"\\", "\\textbackslash{}"},
                                                 {"~", "\\textasciitilde{}"},
                                                 {"^", "\\textasciicircum{}"},
                                                 {"<", "$<$"},
                                                 {">", "$>$"},
                                                 {"|", "$|$"},
                                                 {"&", "\\&"},
                                                 {"%", "\\%"},
                                                 {"$", "\\$"},
                                                 {"#", "\\#"},
                                                 {"_", "\\_"},
                                                 {"{", "\\{"},
                                                 {"}", "\\}"},
                                                 {"\n", " "},
                                                 {"\r", " "},
                                                 {"α", "$\\alpha$"},
                                                 {"δ", "$\\delta$"},
                                                 {"λ", "$\\lambda$"},
                                                 {"µ", "$\\mu$"},
                                                 {"ρ", "$\\rho$"},
                                                 {"σ", "$\\sigma$"},
                                                 {"≥", "$\\ge$"},
                                                 {"≤", "$\\le$"},
                                                 {"−", "$-$"},
                                                 {"×", "$\\times$"},
                                                 {"–", "--"},
                                                 {"√", "$\\surd$"},
                                                 {"…", "\\ldots{}"},
                                                 {"·", "$\\cdot$"}}};

/// `meaning`: characters that get a backslash; an underscore at the edge of a word gets one anyhow.
std::string markdown(std::string_view text, std::string_view meaning) {
  const auto is_letter = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool in_word = i > 0 && is_letter(i - 1) && is_letter(i + 1);
    if (meaning.find(c) != meaning.npos || (c == '_' && !in_word)) escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return escaped;
}

}  // namespace

std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

Gnuplot gnuplot_text(std::string_view text) {
  // gnuplot 5.4 misreads two single quotes in a row: text with one stands in double quotes.
  const bool is_plain = text.find('\'') == text.npos;
  std::string quoted(1, is_plain ? '\'' : '"');
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += ' ';
    else if (!is_plain && (c == '"' || c == '\\' || c == '`'))  // a backtick would run a command
      quoted += c == '"' ? "\\042" : c == '`' ? "\\140" : "\\134";
    else
      quoted += c;
  }
  return Gnuplot::fit(quoted + quoted.front());
}

Html html_text(std::string_view text) { return Html::fit(replaced(text, kHtml)); }

Latex latex_text(std::string_view text) { return Latex::fit(replaced(text, kLatex)); }

Markdown markdown_text(std::string_view text) { return Markdown::fit(markdown(text, "\\<[]`&*")); }

Markdown markdown_cell(std::string_view text) { return Markdown::fit(markdown(text, "\\<[]`&*|_")); }

}  // namespace attest
