// JSON values: building, reading and writing them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dumps/base/error.h"

namespace attest {

/// A text is no JSON, or a value is not of the expected kind. what() names no file: see JsonPlace.
struct JsonError : InputError {
  using InputError::InputError;
};

struct JsonMember;

/// The characters that written text has. ascii: others are \uNNNN, bytes that are no UTF-8 \udcNN, as for Python.
enum class JsonCharacters { utf8, ascii };

/// A value on the heap, which is copied with its box. So a Json takes 16 bytes, whatever its kind.
template <class T>
class JsonBox {
 public:
  JsonBox(T value) : value_(new T(std::move(value))) {}
  JsonBox(const JsonBox& other) : value_(new T(*other.value_)) {}
  JsonBox(JsonBox&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  JsonBox& operator=(JsonBox other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~JsonBox() { delete value_; }

  T& operator*() const { return *value_; }
  bool operator==(const JsonBox& other) const { return *value_ == *other.value_; }

 private:
  T* value_;
};

/// A value of JSON. Objects keep the order in which their members were added or read.
///
/// {{"name", value}, ...} is an object and Json::array({...}) a list: braces alone never make a list.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;

  Json(std::nullptr_t = nullptr) {}
  template <std::integral T>
  Json(T value) {
    if constexpr (std::same_as<T, bool>)
      value_ = value;
    else if constexpr (std::signed_integral<T>)
      value_ = static_cast<std::int64_t>(value);
    else
      value_ = static_cast<std::uint64_t>(value);
  }
  template <std::floating_point T>
  Json(T value) : value_(static_cast<double>(value)) {}
  Json(std::string text);
  Json(std::string_view text);
  Json(const char* text);
  Json(std::initializer_list<JsonMember> members);
  Json(Array elements);
  template <class T>  // a container
  requires(!std::convertible_to<const T&, std::string_view> && requires { typename T::value_type; })
      Json(const T& elements)
      : Json(Array(elements.begin(), elements.end())) {}
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> elements = {});
  static Json object(std::initializer_list<JsonMember> members = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_flag() const { return std::holds_alternative<bool>(value_); }
  /// A number without fraction and exponent.
  bool is_whole(std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX) const;
  bool is_unsigned_whole() const;
  bool is_number() const { return value_.index() >= 2 && value_.index() <= 4; }
  bool is_text() const { return std::holds_alternative<JsonBox<std::string>>(value_); }
  bool is_array() const { return std::holds_alternative<JsonBox<Array>>(value_); }
  bool is_object() const { return std::holds_alternative<JsonBox<Object>>(value_); }

  // These return the value. They throw JsonError if it is of another kind or out of range.
  bool flag() const;
  std::int64_t whole(std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX) const;
  std::uint64_t unsigned_whole() const;
  double number() const;
  const std::string& text() const;
  std::string text_or(std::string_view otherwise) const;  ///< `otherwise` if it is of another kind
  const Array& elements() const;
  Array& elements();
  const Object& members() const;
  Object& members();

  /// The value as a T: a bool, an integer (in its range), a float, std::string, or a vector of those.
  template <class T>
  T as() const;

  /// The number of elements or members; 0 for other kinds.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// The elements of a list; values of other kinds have none.
  Array::const_iterator begin() const;
  Array::const_iterator end() const;

  /// The member or element; a null value if there is none or this value is of another kind.
  const Json& operator[](std::string_view name) const;
  const Json& operator[](std::size_t index) const;
  /// Adds the member if it is missing, and makes null an object.
  Json& operator[](std::string_view name);
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Nullptr if there is no such member, or this value is no object.
  const Json* find(std::string_view name) const;
  /// Throws JsonError if there is no such member or element.
  const Json& at(std::string_view name) const;
  const Json& at(std::size_t index) const;

  /// Adds an element, and makes null a list.
  void push_back(Json element);
  /// Adds the members of an object, or replaces their values.
  void update(const Json& object);
  /// Puts the members of all objects inside into the order of their names.
  Json& sort();

  /// The value as text, on one line, or with `indent` more spaces for each level. Numbers that are not finite are
  /// null. Bytes that are no UTF-8 are the text \xNN if the characters are utf8.
  std::string dump(int indent = -1, JsonCharacters characters = JsonCharacters::utf8) const;

  /// The order of members does not count, and numbers are compared by their value.
  bool operator==(const Json& other) const;

 private:
  using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, JsonBox<std::string>,
                             JsonBox<Array>, JsonBox<Object>>;

  void write(std::string& out, int indent, int level, JsonCharacters characters) const;

  Value value_;
};

struct JsonMember {
  std::string name;
  Json value;
  bool operator==(const JsonMember&) const = default;
};

template <class T>
T Json::as() const {
  if constexpr (std::same_as<T, bool>) {
    return flag();
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    return unsigned_whole();
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(whole(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(number());
  } else if constexpr (std::same_as<T, std::string>) {
    return text();
  } else {
    T result;
    result.reserve(size());
    for (const Json& element : elements()) result.push_back(element.as<typename T::value_type>());
    return result;
  }
}

/// Bounds of a text. Comparing, copying and writing values takes stack for each level.
struct JsonLimits {
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
  int max_levels = 64;
};

/// Throws JsonError, naming line and column, if the text is not JSON, exceeds the limits, or has a name twice in one
/// object.
Json parse_json(std::string_view text, JsonLimits limits = {});

/// As parse_json(); nothing where that throws.
std::optional<Json> parsed_json(std::string_view text, JsonLimits limits = {});

/// The largest description of a study, a recommendation and the like: that of 1000 samples takes some 100 KB.
inline constexpr std::uint64_t kMaxDescriptionBytes = std::uint64_t{16} << 20;

/// The object in a file. `what`: "a recommendation". Throws InputError, naming the file, if it is missing, larger than
/// `max_bytes`, or holds no JSON object.
Json read_json_object(const std::string& path, std::string_view what, std::uint64_t max_bytes = kMaxDescriptionBytes);

/// A value as it stands in the file, for messages: "an object", "a list", 5, "text".
std::string found_text(const Json& value);

}  // namespace attest
