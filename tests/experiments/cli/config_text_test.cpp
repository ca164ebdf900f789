// The grammar of configuration files, and errors that name the line.
#include "experiments/cli/config_text.h"

#include <gtest/gtest.h>

#include <ctime>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

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
  for (const std::string value : {"5", "-2", "1e-3", "0.5", "inf", "nan", "true", "false", "1e999"})
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

TEST(ConfigText, ErrorsNameTheLine) {
  const std::string value = "expected a \"string\", a number, true, false or a [list] here, found ";
  EXPECT_EQ(complaint("a = 1\nb = cpu"), "c.toml, line 2: " + value + "'cpu'");
  EXPECT_EQ(complaint("a ="), "c.toml, line 1: " + value + "the end of the line");
  EXPECT_EQ(complaint("a = 0x10"), "c.toml, line 1: " + value + "'0x10'");
  EXPECT_EQ(complaint("a = 12.5%"), "c.toml, line 1: " + value + "'12.5%'");
  EXPECT_EQ(complaint("a = [1,\n2"),
            "c.toml, line 2: expected ',' or ']' in the list that begins in line 1, found the "
            "end of the line");
  EXPECT_EQ(complaint("a = [[1]]"), "c.toml, line 1: " + value + "'[1]]'");
  EXPECT_EQ(complaint("a = 1 2"), "c.toml, line 1: expected the end of the line after that, found '2'");
  EXPECT_EQ(complaint("quiet"), "c.toml, line 1: expected '=' after the key, found the end of the line");
  EXPECT_EQ(complaint("\n= 5"), "c.toml, line 2: expected a key or a [section] here, found '= 5'");
  EXPECT_EQ(complaint("[run\n"), "c.toml, line 1: expected ']' after the section's name, found the end of the line");
  EXPECT_EQ(complaint("[[run]]"), "c.toml, line 1: lists of sections, [[ ]], have no meaning here");
  EXPECT_EQ(complaint("a = \"x"), "c.toml, line 1: a string has no closing \"");
  EXPECT_EQ(complaint("a = \"\"\"x\"\"\""),
            "c.toml, line 1: expected the end of the line after that, found '\"x\"\"\"'");
  EXPECT_NE(complaint(R"(a = "\q")"), "");
  EXPECT_NE(complaint(std::string("a = \x1b[1m\0", 10)).find("\\x1b"), std::string::npos)
      << "no escapes reach the terminal";
}

TEST(ConfigText, EveryOtherTextIsRefused) {
  const std::string value = "expected a \"string\", a number, true, false or a [list] here, found ",
                    key = "expected a key or a [section] here, found ", is = "expected '=' after the key, found ",
                    end = "expected the end of the line after that, found ",
                    escape = "expected \", \\, t or n ('strings' have no escapes) after a backslash, found ",
                    list = "expected ',' or ']' in the list that begins in line 1, found ",
                    nothing = "the end of the line";
  const std::pair<std::string, std::string> cases[]{{"a = True", value + "'True'"},
                                                    {"a = 1979-05-27", value + "'1979-05-27'"},
                                                    {"a = 1_000", value + "'1_000'"},
                                                    {"a = { b = 1 }", value + "'{ b = 1 }'"},
                                                    {"a = 0b1", value + "'0b1'"},
                                                    {"a = --1", value + "'--1'"},
                                                    {"a = +-1", value + "'+-1'"},
                                                    {"a = ,", value + "','"},
                                                    {"a = [,]", value + "',]'"},
                                                    {"a = [1 2]", list + "'2]'"},
                                                    {"a = [1,", value + nothing},
                                                    {"a = [1] 2", end + "'2'"},
                                                    {"a = 'x' 'y'", end + "''y''"},
                                                    {"a = 'x", "a string has no closing '"},
                                                    {"a = \"x\ny\"", "a string has no closing \""},
                                                    {"a = \"\\", escape + nothing},
                                                    {"a = \"\\u0041\"", escape + "'u0041\"'"},
                                                    {"a b = 1", is + "'b = 1'"},
                                                    {"a: 1", is + "': 1'"},
                                                    {"a.", key + nothing},
                                                    {"a..b = 1", key + "'.b = 1'"},
                                                    {".a = 1", key + "'.a = 1'"},
                                                    {"[]", key + "']'"},
                                                    {"[a.]", key + "']'"},
                                                    {"[a] b = 1", end + "'b = 1'"},
                                                    {"[a b]", "expected ']' after the section's name, found 'b]'"},
                                                    {"\xff = 1", key + "'\\xff = 1'"},
                                                    {"\"\x1b\" = x", value + "'x'"},
                                                    {"; a", key + "'; a'"}};
  for (const auto& [text, sentence] : cases) EXPECT_EQ(complaint(text), "c.toml, line 1: " + sentence) << text;
}

TEST(ConfigText, ManyKeysAreNoWork) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k" + std::to_string(i) + "=1\n";
  for (int i = 0; i < 10'000; ++i) text += "[s" + std::to_string(i) + "]\n";
  const std::clock_t begin = std::clock();
  EXPECT_EQ(parse_config(text, "c.toml").size(), 100'000u);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 5) << "each key was compared with all before it";
}

TEST(ConfigText, LongNamesAreCut) {
  const std::string name(5000, 'x');
  EXPECT_EQ(complaint(name + " = 1\n" + name + " = 2"),
            "c.toml, line 2: '" + name.substr(0, 200) + "...' is there already, in line 1");
  EXPECT_EQ(complaint("[" + name + "]\n[" + name + "]"),
            "c.toml, line 2: the section [" + name.substr(0, 200) + "...] is there already, in line 1");
}

TEST(ConfigText, NamesHaveFewParts) {
  EXPECT_EQ(complaint("[a.a.a.a.a.a.a.a]"), "");
  EXPECT_EQ(complaint("[a.a.a.a.a.a.a.a.a]"), "c.toml, line 1: a name has more than 8 parts");
  EXPECT_EQ(complaint("\na.a.a.a.a.a.a.a.a = 1"), "c.toml, line 2: a name has more than 8 parts");
}

TEST(ConfigText, NothingIsThereTwice) {
  EXPECT_EQ(complaint("a = 1\n\na = 2"), "c.toml, line 3: 'a' is there already, in line 1");
  EXPECT_EQ(complaint("run.a = 1\n[run]\na = 2"), "c.toml, line 3: 'a' is there already, in line 1");
  EXPECT_EQ(complaint("[run]\na = 1\n[x]\n[run]"), "c.toml, line 4: the section [run] is there already, in line 1");
  EXPECT_EQ(complaint("a = 1\n[run]\na = 2"), "");
}

}  // namespace
}  // namespace attest
