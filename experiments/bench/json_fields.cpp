// Checks the kinds of JSON values.
#include "experiments/bench/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "dumps/base/json_file.h"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::string_view kNumber = "a number of at least 0";

bool is_number(const json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
}

std::string names_text(const std::vector<std::string>& names) {
  return fmt::format("{}\"{}\"", names.size() > 1 ? "one of " : "", fmt::join(names, "\", \""));
}

}  // namespace

JsonFields::JsonFields(std::string path, std::string place, const json& object)
    : path_(std::move(path)), place_(std::move(place)), object_(&object) {
  if (!object.is_object())
    throw InputError(fmt::format("{}: {} is {}, expected an object", path_, place_, found_text(object)));
}

void JsonFields::refuse(const std::string& name, std::string_view expected) const {
  const auto found = object_->find(name);
  throw InputError(fmt::format("{}: {} is {}, expected {}", path_, inside(place_, name),
                               found == object_->end() ? "missing" : found_text(*found), expected));
}

const json& JsonFields::at(const std::string& name, std::string_view expected) const {
  const auto found = object_->find(name);
  if (found == object_->end()) refuse(name, expected);
  return *found;
}

std::string JsonFields::text(const std::string& name) const {
  constexpr std::string_view kExpected = "a text";
  const json& value = at(name, kExpected);
  if (!value.is_string()) refuse(name, kExpected);
  return value.get<std::string>();
}

std::string JsonFields::text_or_null(const std::string& name) const {
  constexpr std::string_view kExpected = "a text or null";
  const json& value = at(name, kExpected);
  if (value.is_null()) return {};
  if (!value.is_string()) refuse(name, kExpected);
  return value.get<std::string>();
}

std::string JsonFields::one_of(const std::string& name, const std::vector<std::string>& names) const {
  const json& value = at(name, names_text(names));
  if (!value.is_string() || std::ranges::find(names, value.get_ref<const std::string&>()) == names.end())
    refuse(name, names_text(names));
  return value.get<std::string>();
}

std::string JsonFields::one_of_or_null(const std::string& name, const std::vector<std::string>& names) const {
  if (is_null(name)) return {};
  return one_of(name, names);
}

bool JsonFields::flag(const std::string& name) const {
  constexpr std::string_view kExpected = "true or false";
  const json& value = at(name, kExpected);
  if (!value.is_boolean()) refuse(name, kExpected);
  return value.get<bool>();
}

std::int64_t JsonFields::whole(const std::string& name, std::int64_t least, std::int64_t most) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  const json& value = at(name, expected);
  const bool small = !value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!value.is_number_integer() || !small || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse(name, expected);
  return value.get<std::int64_t>();
}

std::uint64_t JsonFields::unsigned_whole(const std::string& name) const {
  constexpr std::string_view kExpected = "a whole number of at least 0";
  const json& value = at(name, kExpected);
  const bool negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  if (!value.is_number_integer() || negative) refuse(name, kExpected);
  return value.get<std::uint64_t>();
}

double JsonFields::number(const std::string& name) const {
  const json& value = at(name, kNumber);
  if (!is_number(value)) refuse(name, kNumber);
  return value.get<double>();
}

double JsonFields::number_or_null(const std::string& name) const {
  const std::string expected = fmt::format("{} or null", kNumber);
  const json& value = at(name, expected);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!is_number(value)) refuse(name, expected);
  return value.get<double>();
}

double JsonFields::cosine_or_null(const std::string& name) const {
  constexpr std::string_view kExpected = "a number from -1 to 1 or null";
  const json& value = at(name, kExpected);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number() || !(std::fabs(value.get<double>()) <= 1 + 1e-6)) refuse(name, kExpected);
  return value.get<double>();
}

std::vector<double> JsonFields::numbers(const std::string& name) const {
  constexpr std::string_view kExpected = "a list of numbers of at least 0";
  const json& value = at(name, kExpected);
  if (!value.is_array() || !std::ranges::all_of(value, is_number)) refuse(name, kExpected);
  return value.get<std::vector<double>>();
}

std::vector<std::string> JsonFields::texts(const std::string& name) const {
  constexpr std::string_view kExpected = "a list of texts";
  const json& value = at(name, kExpected);
  if (!value.is_array() || !std::ranges::all_of(value, [](const json& each) { return each.is_string(); }))
    refuse(name, kExpected);
  return value.get<std::vector<std::string>>();
}

JsonFields JsonFields::object(const std::string& name) const {
  return {path_, inside(place_, name), at(name, "an object")};
}

bool JsonFields::is_null(const std::string& name) const {
  const auto found = object_->find(name);
  return found != object_->end() && found->is_null();
}

void JsonFields::objects(const std::string& name, const std::function<void(const JsonFields&)>& each) const {
  constexpr std::string_view kExpected = "a list of objects";
  const json& list = at(name, kExpected);
  if (!list.is_array()) refuse(name, kExpected);
  for (std::size_t i = 0; i < list.size(); ++i) each({path_, fmt::format("{}[{}]", inside(place_, name), i), list[i]});
}

}  // namespace attest
