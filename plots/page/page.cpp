// Writes findings, tables, figures and folded texts as HTML.
#include "plots/page/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>

#include "plots/page/packed_values.h"

namespace attest {
namespace {

Html table_html(const PageTable& table) {
  const Html title = html_text(table.title);
  Html head, body;
  for (const Column& column : table.table.columns())
    head += html("<th scope=\"col\"{}>{}</th>", column.kind == Column::Kind::number ? Html(" class=\"num\"") : Html(),
                 html_text(column.heading.empty() ? column.name : column.heading));
  for (std::size_t row = 0; row < table.table.rows(); ++row) {
    body += "<tr>";
    for (const Column& column : table.table.columns())
      body += column.kind == Column::Kind::number
                  ? html("<td class=\"num\">{}</td>",
                         html_text(number_text(column.numbers[row], column, NumberStyle::page)))
                  : html("<td><bdi>{}</bdi></td>", html_text(column.texts[row]));
    body += "</tr>\n";
  }
  const Html shown = html(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table class=\"data\">"
      "<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>",
      title, head, body);
  if (table.open) return html("<div class=\"table\"><h3>{}</h3>{}</div>\n", title, shown);
  return html("<details class=\"table\"><summary>{} ({} row{})</summary>{}</details>\n", title, table.table.rows(),
              table.table.rows() == 1 ? Html() : Html("s"), shown);
}

/// " width=.. height=..", so that nothing moves when the picture appears; empty if the picture does not say.
Html size_attributes(const std::string& svg) {
  constexpr std::string_view kViewBox = "viewBox=\"0 0 ";
  const std::size_t at = svg.find(kViewBox);
  int width = 0, height = 0;
  if (at == svg.npos || std::sscanf(svg.c_str() + at + kViewBox.size(), "%d %d", &width, &height) != 2) return {};
  return html(" width=\"{}\" height=\"{}\"", width, height);
}

/// The picture is compressed to a tenth; the page's script shows it (figures.js). In an img element it can neither run
/// scripts nor load anything.
Html figure_html(const PageFigure& figure) {
  Html text = "<figure class=\"plot\">";
  if (!figure.svg.empty())
    text += html("<img data-svg=\"{}\" alt=\"{}\"{}>", html_text(packed_bytes(figure.svg)), html_text(figure.title),
                 size_attributes(figure.svg));
  return text + html("<figcaption>{}</figcaption></figure>\n", html_text(figure.caption));
}

Html list_html(std::span<const PageFinding> findings) {
  if (findings.empty()) return {};
  Html text = "<ul class=\"findings\">\n";
  for (const PageFinding& finding : findings) {
    text += html("<li class=\"{0}\"><span class=\"severity\">{0}</span><strong class=\"number\">{1}</strong><p>{2}",
                 html_text(name_of(finding.severity)), html_text(finding.number), html_text(finding.text));
    if (!finding.link.empty()) text += html(" <a href=\"#{}\">Show</a>", html_text(finding.link));
    text += "</p></li>\n";
  }
  return text + "</ul>\n";
}

Html section_html(const PageSection& section) {
  Html text = html("<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n",
                   html_text(section.id), html_text(section.title));
  if (!section.note.empty()) text += html("<p class=\"quiet\">{}</p>\n", html_text(section.note));
  text += findings_html(section.findings, section.findings.size());
  for (const PageFigure& figure : section.figures) text += figure_html(figure);
  for (const PageTable& table : section.tables) text += table_html(table);
  return text + "</section>\n";
}

}  // namespace

std::string_view name_of(Severity severity) {
  constexpr std::string_view kNames[] = {"good", "note", "warning", "serious"};
  return kNames[static_cast<std::size_t>(severity)];
}

Html facts_html(const std::vector<NamedText>& facts) {
  Html text;
  for (const auto& [name, value] : facts)
    text += html("<div><dt>{}</dt><dd><bdi>{}</bdi></dd></div>", html_text(name), html_text(value));
  return text;
}

Html findings_html(const std::vector<PageFinding>& findings, std::size_t first) {
  const std::size_t shown = std::min(first, findings.size());
  Html text = list_html(std::span(findings).first(shown));
  if (const std::size_t more = findings.size() - shown; more > 0)
    text += html("<details class=\"more\"><summary>{} more</summary>\n{}</details>\n", more,
                 list_html(std::span(findings).subspan(shown)));
  return text;
}

Html sections_html(const std::vector<PageSection>& sections) {
  Html text;
  for (const PageSection& section : sections) text += section_html(section);
  return text;
}

Html folded_html(const std::vector<NamedText>& texts) {
  Html text;
  for (const auto& [name, long_text] : texts)
    text += html("<details><summary><bdi>{}</bdi></summary><pre tabindex=\"0\">{}</pre></details>\n", html_text(name),
                 html_text(long_text));
  return text;
}

Html filled(const Html& page, const std::map<std::string_view, Html>& slots) {
  std::string result;
  for (std::string_view rest = page.text();;) {
    const std::size_t begin = rest.find("{{"), end = rest.find("}}", begin);
    if (begin == rest.npos || end == rest.npos) return Html::fit(result.append(rest));
    result.append(rest.substr(0, begin)).append(slots.at(rest.substr(begin + 2, end - begin - 2)).text());
    rest.remove_prefix(end + 2);
  }
}

Html json_in_script(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  }
  return Html::fit(result);
}

}  // namespace attest
