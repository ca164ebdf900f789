// Reading a JSON document with errors that name the file and the place in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/json.h"

namespace attest {

/// The name of a member for messages: "layers.13"; `place` may be empty.
std::string inside(std::string_view place, std::string_view name);

/// A value of a document, or the place where one is missing. Its functions throw InputError if the value is another:
/// 'b.json: steps[3].bytes is "x", expected a whole number from 0 to 9'. The document must live longer.
class JsonPlace {
 public:
  /// `file`: what messages begin with. `place` is empty for the document itself.
  explicit JsonPlace(const Json& value, std::string file, std::string place = {})
      : JsonPlace(&value, std::move(file), std::move(place)) {}
  explicit JsonPlace(Json&&, std::string, std::string = {}) = delete;

  bool is_missing() const { return value_ == nullptr; }
  bool is_null() const { return value_ != nullptr && value_->is_null(); }
  /// "b.json: steps[3].bytes"
  std::string name() const;

  /// A member of an object, or the place where it is missing.
  JsonPlace operator[](std::string_view name) const;

  /// A value of any kind.
  const Json& value() const;
  /// A text of at most kMaxText bytes: a name or a sentence.
  const std::string& text() const;
  static constexpr std::size_t kMaxText = 1 << 16;
  const std::string& one_of(const std::vector<std::string>& texts) const;
  bool flag() const;
  std::int64_t whole(std::int64_t min, std::int64_t max) const;
  std::uint64_t unsigned_whole() const;
  /// A number that is finite and at least 0.
  double number() const;
  /// A list of at most kMaxElements: a place takes ten times the memory of its value.
  std::vector<JsonPlace> elements() const;
  static constexpr std::size_t kMaxElements = 1 << 20;
  std::vector<std::string> texts() const;
  /// A list of numbers, each finite and at least 0.
  std::vector<double> numbers() const;
  /// Calls `each` with the name of each member and its place.
  void for_members(const std::function<void(const std::string& name, const JsonPlace& member)>& each) const;

  /// Refuses any other value, and a missing one.
  void must_be(const Json& expected) const;

  /// Throws the InputError of the other functions. `expected`: "a text".
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  JsonPlace(const Json* value, std::string file, std::string place)
      : value_(value), file_(std::move(file)), place_(std::move(place)) {}

  const Json* value_;  ///< nullptr: missing
  std::string file_, place_;
};

}  // namespace attest
