// Widths of texts are estimated from their numbers of characters.
#include "plots/text_lines.h"

#include <algorithm>

#include "plots/layout_lengths.h"
#include "plots/utf8.h"

namespace attest {

std::size_t characters_of_line(const FigureLayout& layout, double taken) {
  return static_cast<std::size_t>(std::max(8.0, (layout.width_in / layout.text_scale - taken) / kCharacterWidth));
}

std::vector<std::string> lines_of(std::string text, std::size_t maximum) {
  std::vector<std::string> lines;
  while (characters(text) > maximum) {
    auto [line, rest] = split_characters(text, maximum);
    if (const std::size_t space = line.rfind(' '); !rest.starts_with(' ') && space != line.npos && space > 0) {
      rest = line.substr(space) + rest;
      line.resize(space);
    }
    lines.push_back(line);
    text = rest.substr(rest.starts_with(' ') ? 1 : 0);
  }
  if (!text.empty()) lines.push_back(text);
  return lines;
}

std::vector<std::vector<std::string>> row_of_lines(const std::vector<std::string>& texts,
                                                   const std::vector<double>& centres, const FigureLayout& layout) {
  const double character = kLabelCharacterWidth * layout.text_scale;
  const auto width = [&](const std::vector<std::string>& lines) {
    std::size_t longest = 0;
    for (const std::string& line : lines) longest = std::max(longest, characters(line));
    return static_cast<double>(longest) * character;
  };
  const auto fit = [&](std::size_t i, double room) {
    return lines_of(texts[i], static_cast<std::size_t>(std::max(4.0, room / character)));
  };
  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < texts.size(); ++i)
    lines.push_back(fit(i, 2 * std::min(centres[i], layout.width_in - centres[i])));
  for (std::size_t i = 0; i + 1 < texts.size(); ++i)
    if (const double apart = centres[i + 1] - centres[i]; width(lines[i]) + width(lines[i + 1]) > 2 * apart)
      for (const std::size_t own : {i, i + 1})
        if (width(lines[own]) > apart - character) lines[own] = fit(own, apart - character);
  return lines;
}

}  // namespace attest
