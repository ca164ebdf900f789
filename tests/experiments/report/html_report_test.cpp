// A page as text: hashes of its script and style, size, what is left out, hostile text.
#include "experiments/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "experiments/report/page_parts.h"

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportData example(std::size_t arrays = 0) {
  ReportData data{.title = "A & B", .studied = "Nothing."};
  data.metrics = {{.name = "recall", .better = MapMetric::Better::higher, .is_share = true, .logarithmic = true}};
  data.models = {
      {.name = "m", .layers = {0, 1}, .num_heads = 2, .samples = {"s"}, .selectors = {{"ffd", "delta", {"5"}, {0}}}}};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0, 1);
  for (std::size_t i = 0; i < arrays; ++i) {
    std::vector<double> values(20000);
    for (double& value : values) value = noise(random);
    data.arrays.push_back({.rank = static_cast<int>(i), .values = values});
  }
  return data;
}

TEST(HtmlReport, IsOneFileThatAsksForNothing) {
  const std::string html = html_report(example(1)).html;
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("<title>A &amp; B</title>"));
  const std::string namespace_of_svg = "http://www.w3.org/2000/svg";
  for (std::size_t at = html.find("://"); at != html.npos; at = html.find("://", at + 1))
    EXPECT_EQ(html.substr(at - 4, namespace_of_svg.size()), namespace_of_svg) << "the only address, which is a name";
  EXPECT_THAT(html, Not(HasSubstr("{{")));
}

TEST(HtmlReport, TheSameDataGiveTheSamePage) { EXPECT_EQ(html_report(example(3)).html, html_report(example(3)).html); }

TEST(HtmlReport, LosesDigitsThenArraysUntilItFits) {
  const HtmlReport whole = html_report(example(4));
  EXPECT_EQ(whole.rounded, 0u);
  EXPECT_EQ(whole.left_out, 0u);
  ASSERT_LT(whole.html.size(), kPageBytes);
  EXPECT_THAT(whole.html, Not(HasSubstr("a digit less")));

  const HtmlReport rounded = html_report(example(4), whole.html.size() - 1000);
  EXPECT_GE(rounded.rounded, 1u);
  EXPECT_LT(rounded.rounded, 4u) << "no more than is needed";
  EXPECT_EQ(rounded.left_out, 0u);
  EXPECT_LE(rounded.html.size(), whole.html.size() - 1000);
  EXPECT_THAT(rounded.html, HasSubstr("have a digit less"));

  const HtmlReport fewer = html_report(example(4), whole.html.size() / 2);
  EXPECT_GE(fewer.left_out, 1u);
  EXPECT_LE(fewer.html.size(), whole.html.size() / 2);
  EXPECT_THAT(fewer.html, HasSubstr("are left out"));

  const HtmlReport minimum = html_report(example(4), 0);
  EXPECT_EQ(minimum.left_out, 3u) << "rank 0 stays";
}

TEST(HtmlReport, EqualArraysAreStoredOnce) {
  ReportData data = example(1);
  const std::size_t one = html_report(data).html.size();
  data.arrays.push_back(data.arrays.front());
  EXPECT_LT(html_report(data).html.size(), one + 100);
}

TEST(HtmlReport, TextIsTextEverywhere) {
  const std::string bad = "</script></title><img src=x onerror=alert(1)>\"'{{data}}";
  ReportData data = example(1);
  data.title = data.studied = data.cells_note = data.figures_note = bad;
  data.facts = {{bad, bad}};
  data.manifests = {{bad, bad}};
  data.findings = {{Severity::serious, bad, bad, bad}};
  data.models[0].name = data.models[0].samples[0] = data.models[0].selectors[0].label = bad;
  data.metrics[0].definition = bad;
  Table table({{.name = bad, .kind = Column::Kind::text}});
  table.add_row({bad});
  data.figures = {{.id = "x",
                   .title = bad,
                   .note = bad,
                   .figures = {{bad, bad, "<svg viewBox=\"0 0 3 4\"/>"}},
                   .tables = {{bad, table}}}};
  const std::string html = html_report(data).html;
  EXPECT_THAT(html, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(html, Not(HasSubstr("</script></title>")));
  EXPECT_THAT(html, HasSubstr("width=\"3\" height=\"4\""));
  const std::string end = "</script>";
  std::size_t scripts = 0;
  for (std::size_t at = html.find(end); at != html.npos; at = html.find(end, at + 1)) ++scripts;
  EXPECT_EQ(scripts, 2u) << "the data and the script";
}

TEST(PageParts, TheScriptHasNothingThatEndsIt) {
  EXPECT_EQ(page_parts().script.text().find("</"), std::string_view::npos);
  EXPECT_EQ(page_parts().style.text().find("</"), std::string_view::npos);
  EXPECT_EQ(page_parts().script_hash.text().size(), std::string_view("sha256-").size() + 44);
}

}  // namespace
}  // namespace attest
