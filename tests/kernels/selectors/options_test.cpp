// Parsing options: values, defaults, and error messages.
#include "kernels/selectors/options.h"

#include <gtest/gtest.h>

#include <functional>

#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "tests/message_of.h"

namespace attest {
namespace {

std::string usage_error(const std::string& name, const OptionPairs& options) {
  return message_of<UsageError>([&] { make_selector({.label = "", .name = name, .options = options}); });
}

TEST(Options, ErrorsNameSelectorOptionValueAndWhatIsValid) {
  EXPECT_EQ(usage_error("ffd", {{"bits", "5"}}),
            "selector 'ffd': option 'bits' is '5', expected '2', '1', '3', '4' or '8'");
  EXPECT_EQ(usage_error("ffd", {{"gqa", "shared"}}),
            "selector 'ffd': option 'gqa' is 'shared', expected 'union' or 'per_head'");
  EXPECT_EQ(usage_error("ffd", {{"block", "12.5"}}),
            "selector 'ffd': option 'block' is '12.5', expected a whole number from 1 to 1048576");
  EXPECT_EQ(usage_error("ffd", {{"block", ""}}),
            "selector 'ffd': option 'block' is '', expected a whole number from 1 to 1048576");
  EXPECT_EQ(usage_error("ffd", {{"sub_block", "48"}}),
            "selector 'ffd': sub_block is 48, expected a divisor of block, which is 128");
  EXPECT_EQ(usage_error("twilight", {{"base_budget", "0"}}),
            "selector 'twilight': option 'base_budget' is '0', expected a number of tokens (1024) or a share of the "
            "visible keys (25%)");
  EXPECT_EQ(usage_error("quest", {{"pages", "16"}}),
            "selector 'quest' has no option 'pages'; nearest: 'page', 'preset' or 'gqa'");
  EXPECT_EQ(usage_error("exact", {{"page", "16"}}), "selector 'exact' has no option 'page'; it has none");
  EXPECT_EQ(usage_error("quest", {{"page", "16"}, {"page", "32"}}), "selector 'quest': option 'page' is given twice");
  EXPECT_EQ(usage_error("twillight", {}).substr(0, 52), "unknown selector 'twillight'; nearest: 'twilight', '");
}

TEST(Options, EverySelectorListsItsOptionsWithTheirDefaults) {
  const auto options = [](const std::string& name) {
    std::string text;
    const std::unique_ptr<Selector> selector = make_selector({.label = "", .name = name, .options = {}});
    for (const OptionValue& o : selector->options()) text += (text.empty() ? "" : " ") + o.name + "=" + o.value;
    return text;
  };
  EXPECT_EQ(options("exact"), "");
  EXPECT_EQ(
      options("ffd"),
      "bits=2 block=128 sub_block=128 scale=block residual=fp8 pseudo_max=thumbnail gqa=union delta_unit=natural "
      "sink_blocks=1 "
      "local_blocks=1 scan=thumbnail rule=topdelta quant_arith=float32 settings_file= dense_layers=0 dense_heads=");
  EXPECT_EQ(options("quest"), "page=16 preset=evaluation gqa=per_head dense_layers=2 dense_heads=");
  EXPECT_EQ(options("kivi"), "bits=2 group=32 residual_length=128 quant_arith=float32 dense_layers=0 dense_heads=");
  EXPECT_EQ(options("twilight"),
            "base=quest base_budget=8192 page=16 rule=exact weights=exact dense_layers=2 dense_heads=");
  EXPECT_EQ(options("streaming_llm"), "sink=4 dense_layers=0 dense_heads=");
  for (const char* oracle : {"topk", "topp"})
    EXPECT_EQ(options(oracle), "granularity=token block=128 gqa=per_head dense_layers=0 dense_heads=");
  EXPECT_EQ(options("topdelta"), "granularity=token block=128 gqa=per_head settings_file= dense_layers=0 dense_heads=");
  EXPECT_EQ(options("skip_softmax"),
            "unit=delta tile=128 splits=1 gqa=union settings_file= dense_layers=0 dense_heads=");
  EXPECT_EQ(options("sparq"), "rank=32 local=0.25 score=logits count=code mean_value=on dense_layers=0 dense_heads=");
  EXPECT_EQ(options("double_sparsity"),
            "channel=qk group_factor=4 bits=4 channels= calibrate= dense_layers=2 dense_heads=");
  EXPECT_EQ(options("sale"), "key_scale=block q_mean=none dense_below=1024 dense_layers=0 dense_heads=");
}

TEST(Budget, TokensOrPerCent) {
  const auto budget = [](std::string_view text) {
    Setting setting;
    return parse_budget(text, setting) ? std::to_string(setting.value) + (setting.percent ? "%" : "") : "rejected";
  };
  EXPECT_EQ(budget("1024"), "1024.000000");
  EXPECT_EQ(budget("12.5%"), "12.500000%");
  for (const char* text : {"", "%", "0", "-3", "1.5", "101%", "0%", "1e20", "nan", "12 %", "8k"})
    EXPECT_EQ(budget(text), "rejected") << text;
}

}  // namespace
}  // namespace attest
