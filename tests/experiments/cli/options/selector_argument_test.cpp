// Parsing the argument of --selector.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "experiments/cli/options/selector_grids.h"
#include "tests/message_of.h"

namespace attest {
namespace {

std::string complaint(std::string_view text) {
  return message_of<UsageError>([&] { parse_selector(text); });
}

TEST(SelectorArgument, IsANameWithOptions) {
  const SelectorSpec spec = parse_selector("ffd:bits=4,gqa=per_head");
  EXPECT_EQ(spec.label, "ffd:bits=4,gqa=per_head");
  EXPECT_EQ(spec.name, "ffd");
  EXPECT_EQ(spec.options, (OptionPairs{{"bits", "4"}, {"gqa", "per_head"}}));
  EXPECT_EQ(parse_selector("quest").label, "quest");
}

TEST(SelectorArgument, ALabelStandsBeforeTheFirstColon) {
  const SelectorSpec spec = parse_selector("my-label_1.0=ffd:bits=4");
  EXPECT_EQ(spec.label, "my-label_1.0");
  EXPECT_EQ(spec.name, "ffd");
  EXPECT_EQ(parse_selector("a=ffd").options.size(), 0u);
  EXPECT_EQ(parse_selector("a=x:path=/data/c.json,b=c=d").options,
            (OptionPairs{{"path", "/data/c.json"}, {"b", "c=d"}}));
}

TEST(SelectorArgument, LabelsAreOfPlainCharacters) {
  EXPECT_EQ(complaint("a b=ffd"),
            "--selector: 'a b=ffd': the label 'a b' is not made of letters, digits, '_', '.' and '-'; expected "
            "[LABEL=]NAME[:option=value,...]");
  for (const char* text : {"=ffd", "a/b=ffd", "ä=ffd", "a,b=ffd"}) EXPECT_NE(complaint(text), "") << text;
}

TEST(SelectorArgument, LabelsOfResultsFilesAreTaken) {
  for (const char* text : {"scores=ffd", "layers=ffd", "query_positions=ffd", ".=ffd", "scores"})
    EXPECT_NE(complaint(text).find("use for something else"), std::string::npos) << text;
}

TEST(SelectorArgument, ASlashNeedsALabel) {
  EXPECT_EQ(complaint("x:path=/data"),
            "--selector: 'x:path=/data': it holds a '/', so it needs a label of its own; expected "
            "[LABEL=]NAME[:option=value,...]");
}

TEST(SelectorArgument, OptionsHaveValues) {
  EXPECT_EQ(complaint("ffd:bits"),
            "--selector: 'ffd:bits': 'bits' is no option=value; expected [LABEL=]NAME[:option=value,...]");
  for (const char* text : {"", "a=", "ffd:", "ffd:bits=2,", "ffd:=2", ":bits=2"})
    EXPECT_NE(complaint(text), "") << text;
}

}  // namespace
}  // namespace attest
