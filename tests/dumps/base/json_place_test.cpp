// JsonPlace: values, and the sentence about each that is another.
#include "dumps/base/json_place.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using Texts = std::vector<std::string>;

Json document() {
  return *parsed_json(R"({"steps": [{"bytes": 7}, {"bytes": "x"}], "on": true, "half": 0.5, "minus": -1,)"
                      R"( "names": ["a", "b"], "mixed": ["a", 1], "none": null})");
}

TEST(JsonPlace, GivesValues) {
  const Json json = document();
  const JsonPlace root(json, "b.json");
  EXPECT_EQ(root.name(), "b.json");
  const JsonPlace bytes = root["steps"].elements().at(0)["bytes"];
  EXPECT_EQ(bytes.name(), "b.json: steps[0].bytes");
  EXPECT_EQ(bytes.whole(0, 7), 7);
  EXPECT_EQ(bytes.unsigned_whole(), 7u);
  EXPECT_EQ(bytes.value(), 7);
  EXPECT_TRUE(root["on"].flag());
  EXPECT_EQ(root["half"].number(), 0.5);
  EXPECT_EQ(root["names"].texts(), (Texts{"a", "b"}));
  EXPECT_EQ(root["names"].elements().at(1).one_of({"a", "b"}), "b");
  EXPECT_TRUE(root["none"].is_null() && !root["none"].is_missing());
  EXPECT_TRUE(root["other"].is_missing() && !root["other"].is_null());
  Texts names;
  root.for_members([&](const std::string& name, const JsonPlace& member) {
    names.push_back(name);
    EXPECT_EQ(member.name(), "b.json: " + name);
  });
  EXPECT_EQ(names, (Texts{"steps", "on", "half", "minus", "names", "mixed", "none"}));
}

TEST(JsonPlace, SaysWhatItExpectedAndFound) {
  const Json json = document();
  const JsonPlace root(json, "b.json");
  const JsonPlace bytes = root["steps"].elements().at(1)["bytes"];
  const std::pair<std::function<void()>, std::string> cases[]{
      {[&] { bytes.whole(0, 9); }, "b.json: steps[1].bytes is \"x\", expected a whole number from 0 to 9"},
      {[&] { root["other"].text(); }, "b.json: other is missing, expected a text"},
      {[&] { root["other"].value(); }, "b.json: other is missing, expected a value"},
      {[&] { root["half"].unsigned_whole(); }, "b.json: half is 0.5, expected a whole number of at least 0"},
      {[&] { root["minus"].number(); }, "b.json: minus is -1, expected a number of at least 0"},
      {[&] { root["half"].flag(); }, "b.json: half is 0.5, expected true or false"},
      {[&] {
         bytes.one_of({"a", "b"});
       },
       "b.json: steps[1].bytes is \"x\", expected one of \"a\", \"b\""},
      {[&] { bytes.must_be(7); }, "b.json: steps[1].bytes is \"x\", expected 7"},
      {[&] { bytes["deeper"]; }, "b.json: steps[1].bytes is \"x\", expected an object"},
  };
  for (const auto& [call, sentence] : cases) EXPECT_EQ(message_of<InputError>(call), sentence);
  const auto sentence_of = [](auto&& call) { return message_of<InputError>(call); };
  EXPECT_TRUE(sentence_of([&] { root.elements(); }).starts_with("b.json: expected a list, found "));
  EXPECT_TRUE(sentence_of([&] { root["mixed"].texts(); }).ends_with("expected a list of texts"));
  EXPECT_TRUE(sentence_of([&] { root["mixed"].numbers(); }).ends_with("expected a list of numbers of at least 0"));
}

}  // namespace
}  // namespace attest
