// Checks the kinds of JSON values, and tells what is there instead.
#include "dumps/base/json_place.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/printable.h"

namespace attest {
namespace {

constexpr std::size_t kMaxExpected = 600;  // bytes, of which each may become four

bool is_amount(const Json& value) { return value.is_number() && std::isfinite(value.number()) && value.number() >= 0; }

}  // namespace

std::string inside(std::string_view place, std::string_view name) {
  return place.empty() ? excerpt(name, 60) : fmt::format("{}.{}", place, excerpt(name, 60));
}

void JsonPlace::refuse(std::string_view expected) const {
  const std::string found = value_ == nullptr ? "missing" : found_text(*value_);
  if (place_.empty()) throw InputError(fmt::format("{}: expected {}, found {}", file_, expected, found));
  throw InputError(fmt::format("{} is {}, expected {}", name(), found, expected));
}

void JsonPlace::must_be(const Json& expected) const {
  if (is_missing() || value() != expected) refuse(expected.dump());
}

std::string JsonPlace::name() const { return place_.empty() ? file_ : fmt::format("{}: {}", file_, place_); }

JsonPlace JsonPlace::operator[](std::string_view name) const {
  if (value_ == nullptr || !value_->is_object()) refuse("an object");
  return {value_->find(name), file_, inside(place_, name)};
}

const Json& JsonPlace::value() const {
  if (value_ == nullptr) refuse("a value");
  return *value_;
}

const std::string& JsonPlace::text() const {
  if (value_ == nullptr || !value_->is_text()) refuse("a text");
  if (value_->text().size() > kMaxText) refuse(fmt::format("a text of at most {} bytes", kMaxText));
  return value_->text();
}

const std::string& JsonPlace::one_of(const std::vector<std::string>& texts) const {
  if (value_ != nullptr && value_->is_text() && std::ranges::find(texts, value_->text()) != texts.end())
    return value_->text();
  std::string expected = texts.size() > 1 ? "one of " : "";
  for (const std::string& text : texts) expected += (&text == texts.data() ? "\"" : ", \"") + text + "\"";
  refuse(excerpt(expected, kMaxExpected));  // a file may have given some of them
}

bool JsonPlace::flag() const {
  if (value_ == nullptr || !value_->is_flag()) refuse("true or false");
  return value_->flag();
}

std::int64_t JsonPlace::whole(std::int64_t min, std::int64_t max) const {
  if (value_ != nullptr && value_->is_whole(min, max)) return value_->whole();
  refuse(fmt::format("a whole number from {} to {}", min, max));
}

std::uint64_t JsonPlace::unsigned_whole() const {
  if (value_ == nullptr || !value_->is_unsigned_whole()) refuse("a whole number of at least 0");
  return value_->unsigned_whole();
}

double JsonPlace::number() const {
  if (value_ == nullptr || !is_amount(*value_)) refuse("a number of at least 0");
  return value_->number();
}

std::vector<JsonPlace> JsonPlace::elements() const {
  if (value_ == nullptr || !value_->is_array()) refuse("a list");
  if (value_->size() > kMaxElements) refuse(fmt::format("a list of at most {} elements", kMaxElements));
  std::vector<JsonPlace> places;
  places.reserve(value_->size());
  for (const Json& element : value_->elements())
    places.push_back({&element, file_, fmt::format("{}[{}]", place_, places.size())});
  return places;
}

std::vector<std::string> JsonPlace::texts() const {
  if (value_ == nullptr || !value_->is_array() || !std::ranges::all_of(value_->elements(), &Json::is_text))
    refuse("a list of texts");
  std::vector<std::string> texts;
  for (const JsonPlace& element : elements()) texts.push_back(element.text());
  return texts;
}

std::vector<double> JsonPlace::numbers() const {
  if (value_ == nullptr || !value_->is_array() || !std::ranges::all_of(value_->elements(), is_amount))
    refuse("a list of numbers of at least 0");
  std::vector<double> numbers;
  for (const Json& element : value_->elements()) numbers.push_back(element.number());
  return numbers;
}

void JsonPlace::for_members(const std::function<void(const std::string&, const JsonPlace&)>& each) const {
  if (value_ == nullptr || !value_->is_object()) refuse("an object");
  for (const auto& [name, member] : value_->members()) each(name, JsonPlace(&member, file_, inside(place_, name)));
}

}  // namespace attest
