// JSON values: their text is that of nlohmann-json, and what is no JSON is refused with its place.
#include "dumps/base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dumps/synthetic/counter_random.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(), kMax = std::numeric_limits<std::int64_t>::max();

std::string error_of(std::string_view text, JsonLimits limits = {}) {
  EXPECT_EQ(parsed_json(text, limits).has_value(), message_of<JsonError>([&] { parse_json(text, limits); }).empty());
  return message_of<JsonError>([&] { parse_json(text, limits); });
}

TEST(Json, IsWrittenInOrder) {
  const Json document = {{"b", 1}, {"a", Json::array({1, -2, "x", nullptr, true, Json::array(), Json::object()})}};
  EXPECT_EQ(document.dump(), R"({"b":1,"a":[1,-2,"x",null,true,[],{}]})");
  EXPECT_EQ((Json{{"b", 1}, {"a", {{"c", {}}}}}.dump(1)), "{\n \"b\": 1,\n \"a\": {\n  \"c\": null\n }\n}");
  EXPECT_EQ(Json(parse_json(R"({"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]})")).sort().dump(),
            R"({"a":[{"e":2,"f":1}],"b":{"c":2,"d":1}})");
}

TEST(Json, NumbersAreWrittenAsNlohmannDoes) {
  RandomStream random(random_key({20261123}));
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = random.below(~std::uint64_t{0});
    const double value = i % 2 == 0 ? std::bit_cast<double>(bits) : static_cast<double>(bits >> 40) / 1000;
    const std::string expected = ordered_json(value).dump();
    ASSERT_EQ(Json(value).dump(), expected);
    ASSERT_EQ(parse_json(expected).dump(), expected);
  }
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(0.1f).dump(), "0.10000000149011612");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).dump(), "18446744073709551615");
  EXPECT_EQ(Json(kMin).dump(), "-9223372036854775808");
}

TEST(Json, AllCharactersAreWrittenAsNlohmannDoes) {
  std::string text;
  for (int c = 0; c < 127; ++c) text += static_cast<char>(c);
  text += "\u00e9\u2013\U0001f600";
  for (const int indent : {-1, 0, 1, 4}) {
    const ordered_json expected = {{text, {text, {{"n", 1.5}}, ordered_json::array(), ordered_json::object()}}};
    EXPECT_EQ(parse_json(expected.dump()).dump(indent), expected.dump(indent));
  }
}

TEST(Json, CharactersMayBeEscaped) {
  EXPECT_EQ(Json("\u00e9\U0001f600").dump(-1, JsonCharacters::ascii), R"("\u00e9\ud83d\ude00")");
  EXPECT_EQ(Json("a\xff\x7f\xc3").dump(-1, JsonCharacters::ascii), R"("a\udcff\u007f\udcc3")") << "as in Python";
}

TEST(Json, WhatATerminalWouldObeyIsEscaped) {
  const std::string text = "\x7f\u0085\u200b\u2028\u202e\u2066\ufeff\U000e0041\u00e9";
  const std::string written = Json(Json::Array{text}).dump();
  EXPECT_EQ(written, R"(["\u007f\u0085\u200b\u2028\u202e\u2066\ufeff\udb40\udc41)"
                     "\u00e9\"]");
  EXPECT_EQ(parse_json(written).at(std::size_t{0}).text(), text);
}

TEST(Json, TextThatIsNotUtf8IsMadePrintable) {
  EXPECT_EQ(Json("a\xff\xc3\xa9").dump(), "\"a\\\\xff\xc3\xa9\"");
  EXPECT_EQ((Json{{"\xed\xa0\x80", 1}}.dump()), R"({"\\xed\\xa0\\x80":1})");
}

TEST(Json, ValuesAreChecked) {
  const Json document = parse_json(R"({"n":-3,"u":18446744073709551615,"x":2.0,"t":"a","l":[1],"f":false})");
  EXPECT_EQ(document["n"].whole(), -3);
  EXPECT_EQ(document["n"].number(), -3);
  EXPECT_EQ(document["u"].unsigned_whole(), ~std::uint64_t{0});
  EXPECT_EQ(document["l"][0].whole(1, 1), 1);
  EXPECT_FALSE(document["f"].flag());
  EXPECT_TRUE(document["none"]["further"][3].is_null());
  EXPECT_EQ(document["n"].text_or("other"), "other");
  EXPECT_EQ(document["l"].as<std::vector<int>>(), std::vector{1});
  EXPECT_EQ(document["l"].as<std::vector<double>>(), std::vector{1.0});
  EXPECT_EQ(document["t"].as<std::string>(), "a");
  const auto message = [](auto&& call) { return message_of<JsonError>(call); };
  EXPECT_EQ(message([&] { document.at("none"); }), "none is missing");
  EXPECT_EQ(message([&] { document["t"].at("none"); }), "expected an object, found \"a\"");
  EXPECT_EQ(message([&] { document["l"].at(1); }), "expected a list of more than 1 elements, found one of 1");
  EXPECT_EQ(message([&] { document["x"].whole(); }),
            "expected a whole number from -9223372036854775808 to 9223372036854775807, found 2.0");
  EXPECT_EQ(message([&] { document["n"].whole(0, 9); }), "expected a whole number from 0 to 9, found -3");
  EXPECT_EQ(message([&] { parse_json("[300]").as<std::vector<std::uint8_t>>(); }),
            "expected a whole number from 0 to 255, found 300");
  EXPECT_EQ(message([&] { document["u"].whole(); }).substr(0, 29), "expected a whole number from ");
  EXPECT_EQ(message([&] { document["n"].unsigned_whole(); }), "expected a whole number of at least 0, found -3");
  EXPECT_EQ(message([&] { document["t"].number(); }), "expected a number, found \"a\"");
  EXPECT_EQ(message([&] { document["t"].flag(); }), "expected true or false, found \"a\"");
  EXPECT_EQ(message([&] { document["l"].text(); }), "expected a text, found a list");
  EXPECT_EQ(message([&] { document["t"].elements(); }), "expected a list, found \"a\"");
  EXPECT_EQ(message([&] { document["l"].members(); }), "expected an object, found a list");
}

TEST(Json, IsEqualByValue) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":[2,{"c":3}]})"), parse_json(R"({"b":[2.0,{"c":3}],"a":1})"));
  EXPECT_NE(parse_json("[1,2]"), parse_json("[2,1]"));
  EXPECT_NE(parse_json("[1]"), parse_json("[1,2]"));
  EXPECT_NE(parse_json(R"({"a":1})"), parse_json(R"({"b":1})"));
  EXPECT_NE(Json(true), Json(1));
  EXPECT_NE(Json("1"), Json(1));
  EXPECT_NE(Json(-1), Json(~std::uint64_t{0}));
  EXPECT_EQ(Json(kMax), Json(static_cast<std::uint64_t>(kMax)));
}

TEST(Json, WhatIsNoJsonIsRefusedWithItsPlace) {
  EXPECT_EQ(error_of("{\"a\": 1,\n  \"b\": x}").substr(0, 31), "line 2, column 8: syntax error ");
  EXPECT_EQ(error_of("").substr(0, 17), "line 1, column 1:");
  EXPECT_EQ(error_of("[1] 2").substr(0, 17), "line 1, column 5:");
  EXPECT_EQ(error_of("[1e999]").substr(0, 17), "line 1, column 6:");
  EXPECT_NE(error_of("\"\xff\""), "");
  EXPECT_NE(error_of("NaN"), "");
  EXPECT_LT(error_of("[\"" + std::string(100'000, 'x')).size(), 400u);
  EXPECT_EQ(error_of(R"({"a":{"b":1,"c":[],"b":1}})"), "a.b is there twice, expected once");
  EXPECT_EQ(error_of(R"({"a":[{"c":1},{"c":1}]})"), "");
}

TEST(Json, SizeAndDepthAreBounded) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(error_of(nested(64)), "");
  EXPECT_EQ(error_of(nested(65)), "more than 64 levels");
  EXPECT_EQ(error_of(std::string(1'000'000, '[')), "more than 64 levels");
  EXPECT_EQ(error_of("[1]", {.max_bytes = 2}), "3 bytes of JSON, expected at most 2");
}

TEST(Json, MembersAreAddedAndReplaced) {
  Json document;
  document["b"] = 1;
  document["a"]["c"] = std::optional<int>();
  document["list"].push_back({{"x", std::vector<double>{1, 0.5}}});
  document.update({{"b", 2}, {"d", 3}});
  EXPECT_EQ(document.dump(), R"({"b":2,"a":{"c":null},"list":[{"x":[1.0,0.5]}],"d":3})");
}

}  // namespace
}  // namespace attest
