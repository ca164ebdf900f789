// Writes findings, tables, figures and the manifest as HTML.
#include "plots/report/static_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>

#include "plots/report/packed_values.h"
#include "plots/report/page_text.h"

namespace attest {
namespace {

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::good:
      return "good";
    case Severity::warning:
      return "warning";
    case Severity::serious:
      return "serious";
    case Severity::note:
      break;
  }
  return "note";
}

/// A column with a heading is for readers and has its decimals; one without shows what a csv has.
std::string number_text(const Column& column, double number) {
  if (std::isnan(number)) return "–";
  if (std::isinf(number)) return number > 0 ? "∞" : "−∞";
  return column.heading.empty() ? fmt::format("{:.6g}", number) : fmt::format("{:.{}f}", number, column.decimals);
}

std::string table_html(const ReportTable& table) {
  const std::string title = html_text(table.title);
  std::string head, body;
  for (const Column& column : table.table.columns())
    head += fmt::format("<th scope=\"col\"{}>{}</th>", column.kind == Column::Kind::number ? " class=\"num\"" : "",
                        html_text(column.heading.empty() ? column.name : column.heading));
  for (std::size_t row = 0; row < table.table.rows(); ++row) {
    body += "<tr>";
    for (const Column& column : table.table.columns())
      body += column.kind == Column::Kind::number
                  ? fmt::format("<td class=\"num\">{}</td>", number_text(column, column.numbers[row]))
                  : fmt::format("<td><bdi>{}</bdi></td>", html_text(column.texts[row]));
    body += "</tr>\n";
  }
  const std::string shown = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table class=\"data\">"
      "<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>",
      title, head, body);
  if (table.open) return fmt::format("<div class=\"table\"><h3>{}</h3>{}</div>\n", title, shown);
  return fmt::format("<details class=\"table\"><summary>{} ({} row{})</summary>{}</details>\n", title,
                     table.table.rows(), table.table.rows() == 1 ? "" : "s", shown);
}

/// " width=.. height=..", so that nothing moves when the picture appears; empty if the picture does not say.
std::string size_attributes(const std::string& svg) {
  constexpr std::string_view kViewBox = "viewBox=\"0 0 ";
  const std::size_t at = svg.find(kViewBox);
  int width = 0, height = 0;
  if (at == svg.npos || std::sscanf(svg.c_str() + at + kViewBox.size(), "%d %d", &width, &height) != 2) return {};
  return fmt::format(" width=\"{}\" height=\"{}\"", width, height);
}

/// The picture is compressed to a tenth; the page's script shows it (figures.js). In an img element it can neither run
/// scripts nor load anything.
std::string figure_html(const ReportFigure& figure) {
  std::string text = "<figure class=\"plot\">";
  if (!figure.svg.empty())
    text += fmt::format("<img data-svg=\"{}\" alt=\"{}\"{}>", packed_bytes(figure.svg), html_text(figure.title),
                        size_attributes(figure.svg));
  return text + fmt::format("<figcaption>{}</figcaption></figure>\n", html_text(figure.caption));
}

std::string list_html(std::span<const ReportFinding> findings) {
  if (findings.empty()) return {};
  std::string text = "<ul class=\"findings\">\n";
  for (const ReportFinding& finding : findings) {
    text +=
        fmt::format("<li class=\"{0}\"><span class=\"severity\">{0}</span><strong class=\"number\">{1}</strong><p>{2}",
                    name_of(finding.severity), html_text(finding.number), html_text(finding.text));
    if (!finding.link.empty()) text += fmt::format(" <a href=\"#{}\">Show</a>", html_text(finding.link));
    text += "</p></li>\n";
  }
  return text + "</ul>\n";
}

}  // namespace

std::string facts_html(const ReportData& data) {
  std::string text;
  for (const auto& [name, value] : data.facts)
    text += fmt::format("<div><dt>{}</dt><dd><bdi>{}</bdi></dd></div>", html_text(name), html_text(value));
  return text;
}

std::string findings_html(const std::vector<ReportFinding>& findings, std::size_t first) {
  const std::size_t shown = std::min(first, findings.size());
  std::string text = list_html(std::span(findings).first(shown));
  if (const std::size_t more = findings.size() - shown; more > 0)
    text += fmt::format("<details class=\"more\"><summary>{} more</summary>\n{}</details>\n", more,
                        list_html(std::span(findings).subspan(shown)));
  return text;
}

std::string section_html(const ReportSection& section) {
  std::string text = fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n",
                                 html_text(section.id), html_text(section.title));
  if (!section.note.empty()) text += fmt::format("<p class=\"quiet\">{}</p>\n", html_text(section.note));
  text += findings_html(section.findings, section.findings.size());
  for (const ReportFigure& figure : section.figures) text += figure_html(figure);
  for (const ReportTable& table : section.tables) text += table_html(table);
  return text + "</section>\n";
}

std::string manifests_html(const ReportData& data) {
  std::string text;
  for (const auto& [name, json] : data.manifests)
    text += fmt::format("<details><summary><bdi>{}</bdi></summary><pre tabindex=\"0\">{}</pre></details>\n",
                        html_text(name), html_text(json));
  return text;
}

}  // namespace attest
