// Configuration files: entries with their lines, and errors that name line and column.
#include "experiments/cli/parse/config_text.h"

#include <gtest/gtest.h>

#include <ctime>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using Texts = std::vector<std::string>;

ConfigEntry only(std::string_view text) {
  const std::vector<ConfigEntry> entries = parse_config(text, "c.toml");
  EXPECT_EQ(entries.size(), 1u) << text;
  return entries.at(0);
}

std::string complaint(std::string_view text) {
  return message_of<InputError>([&] { parse_config(text, "c.toml"); });
}

TEST(ConfigText, EntriesStandInSections) {
  const std::vector<ConfigEntry> entries = parse_config(
      "\xEF\xBB\xBF# comment\r\nthreads = 2 # more\n\n[run]\nquiet=true\n\"delta\" = '5'\n[ bench . study ]\nrepeats = "
      "3",
      "c.toml");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].section, Texts{});
  EXPECT_EQ(entries[0].key, "threads");
  EXPECT_EQ(entries[0].values, Texts{"2"});
  EXPECT_EQ(entries[0].line, 2);
  EXPECT_EQ(entries[1].section, Texts{"run"});
  EXPECT_EQ(entries[2].key, "delta");
  EXPECT_EQ(entries[2].line, 6);
  EXPECT_EQ(entries[3].section, (Texts{"bench", "study"}));
  EXPECT_EQ(only("bench.study.repeats = 3").section, (Texts{"bench", "study"}));
  EXPECT_TRUE(parse_config("", "c.toml").empty());
  EXPECT_TRUE(parse_config("\n# only a comment", "c.toml").empty());
}

TEST(ConfigText, Values) {
  for (const std::string value : {"5", "-2", "1e-3", "0.5", "inf", "nan", "true", "false"})
    EXPECT_EQ(only("a = " + value).values, Texts{value});
  EXPECT_EQ(only("a = +5").values, Texts{"5"});
  EXPECT_EQ(only(R"(a = "x # \"y\" \\ \t")").values, Texts{"x # \"y\" \\ \t"});
  EXPECT_EQ(only(R"(a = 'x\n"')").values, Texts{"x\\n\""});
  EXPECT_EQ(only("a = ''").values, Texts{""});
  EXPECT_FALSE(only("a = 5").is_list);
}

TEST(ConfigText, ListsGoOnOverLines) {
  const ConfigEntry entry = only("\na = [ 'x,y', # one\n  2\n, true,\n]  # end\n");
  EXPECT_EQ(entry.values, (Texts{"x,y", "2", "true"}));
  EXPECT_TRUE(entry.is_list);
  EXPECT_EQ(entry.line, 2);
  EXPECT_EQ(only("a = []").values, Texts{});
}

TEST(ConfigText, AllOfToml) {
  EXPECT_EQ(only("a = 1_000").values, Texts{"1000"});
  EXPECT_EQ(only("a = 0x1F").values, Texts{"31"});
  EXPECT_EQ(only("a = [0b101, 0o17]").values, (Texts{"5", "15"}));
  EXPECT_EQ(only("a = 12.50").values, Texts{"12.50"}) << "settings are labelled as typed";
  EXPECT_EQ(only("'k\u00e9' = [ '\u00e9', 0.25, 7.0 ]").values, (Texts{"\u00e9", "0.25", "7.0"}));
  EXPECT_EQ(only("a = \"\"\"\n1:\\\n   5\"\"\"").values, Texts{"1:5"});
  EXPECT_EQ(only(R"(a = "\u0041")").values, Texts{"A"});
  EXPECT_EQ(only("a = 1979-05-27").values, Texts{"1979-05-27"});
  EXPECT_EQ(only("run = { delta = 5 }").section, Texts{"run"});
}

TEST(ConfigText, ErrorsNameLineAndColumn) {
  const std::pair<std::string, std::string> cases[]{
      {"a = 1\nb = cpu", "line 2, column 5: error while parsing value: could not determine value type"},
      {"a = 12.5%", "line 1, column 9: "},
      {"a = 1e999", "line 1, column 10: error while parsing floating-point: '1e999' could not be interpreted"},
      {"a = 18446744073709551615", "line 1, column 25: error while parsing decimal integer: "},
      {"a = [1,\n2", "line 2, column 2: error while parsing array: encountered end-of-file"},
      {"a = 1 2", "line 1, column 7: "},
      {"quiet", "line 1, column 6: error while parsing key-value pair: encountered end-of-file"},
      {"[run\n", "line 1, column 5: error while parsing table header: "},
      {"a = \"x", "line 1, column 7: error while parsing string: encountered end-of-file"},
      {"a = \"\\q\"", "line 1, column 7: error while parsing string: unknown escape sequence"},
      {"\xff = 1", "line 1, column 1: "},
      {"a = 1\n\na = 2", "line 3, column 5: error while parsing key-value pair: cannot redefine existing integer 'a'"},
      {"run.a = 1\n[run]\na = 2", "line 2, column 1: error while parsing table header: cannot redefine existing table"},
      {"[run]\na = 1\n[x]\n[run]", "line 4, column 1: error while parsing table header: cannot redefine existing"},
      {"\na = [[1]]", "line 2: a list has strings, numbers, true and false, found a list in it"},
      {"[[run]]\na = 1", "line 1: a list has strings, numbers, true and false, found a table in it"}};
  for (const auto& [text, sentence] : cases) {
    const std::string found = complaint(text);
    EXPECT_TRUE(found.starts_with("c.toml, " + sentence)) << text << "\n" << found;
    EXPECT_EQ(printable(found), found) << "no escapes reach the terminal";
  }
  const std::string name(5000, 'x');
  EXPECT_LT(complaint(name + " = 1\n" + name + " = 2").size(), 400U);
}

TEST(ConfigText, ManyKeysAreNoWork) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k" + std::to_string(i) + "=1\n";
  for (int i = 0; i < 10'000; ++i) text += "[s" + std::to_string(i) + "]\n";
  const std::clock_t begin = std::clock();
  EXPECT_EQ(parse_config(text, "c.toml").size(), 100'000u);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 5) << "each key was compared with all before it";
}

TEST(ConfigText, NamesHaveFewParts) {
  const std::string parts = "a.a.a.a.a.a.a.a", refused = ": a name has more than 8 parts";
  EXPECT_EQ(complaint("[" + parts + "]"), "");
  EXPECT_EQ(complaint("x = 'a.b.c.d.e.f.g.h.i' # 1.2.3.4.5.6.7.8.9\ny = [1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0]"), "");
  EXPECT_EQ(complaint("x = \"\"\"\"a.b.c.d.e.f.g.h.i\n\\\"\"\"\"\"\ny = '''a.b.c.d.e.f.g.h.i'''"), "");
  EXPECT_EQ(complaint("[" + parts + ".a]"), "c.toml, line 1" + refused);
  EXPECT_EQ(complaint("\n" + parts + " . a = 1"), "c.toml, line 2" + refused);
  EXPECT_EQ(complaint("x = { y = '''\n''''', " + parts + ".\"a\" = 1 }"), "c.toml, line 2" + refused);
  EXPECT_EQ(complaint("[" + std::string(500'000, '.')), "c.toml, line 1" + refused);
}

}  // namespace
}  // namespace attest
