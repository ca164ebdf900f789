// The only source that uses nlohmann-json for text: its parser, and its form of numbers.
#include "dumps/base/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "dumps/base/characters.h"
#include "dumps/base/input_file.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

const Json kNull;

[[noreturn]] void refuse(const Json& value, std::string_view expected) {
  throw JsonError(fmt::format("expected {}, found {}", expected, found_text(value)));
}

std::vector<const JsonMember*> sorted_by_name(const Json::Object& object) {
  std::vector<const JsonMember*> members;
  members.reserve(object.size());
  for (const JsonMember& member : object) members.push_back(&member);
  std::ranges::sort(members, [](const JsonMember* a, const JsonMember* b) { return a->name < b->name; });
  return members;
}

/// Makes values of what the parser finds.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, JsonLimits limits) : text_(text), limits_(limits) {}

  Json document;
  std::string error;  ///< Why the parser stopped.

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    open_.back()->members().push_back({std::move(name), Json()});
    return true;
  }
  bool end_array() override { return close(); }
  bool end_object() override {
    const std::vector<const JsonMember*> members = sorted_by_name(open_.back()->members());
    const auto repeated = std::ranges::adjacent_find(
        members, [](const JsonMember* a, const JsonMember* b) { return a->name == b->name; });
    if (repeated == members.end()) return close();
    std::string place;
    for (std::size_t level = 0; level + 1 < open_.size(); ++level)
      if (open_[level]->is_object()) place += excerpt(open_[level]->members().back().name, 60) + ".";
    error = fmt::format("{}{} is there twice, expected once", place, excerpt((*repeated)->name, 60));
    return false;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) override {
    const std::string_view read = text_.substr(0, position > 0 ? position - 1 : 0);
    const std::string_view line = read.substr(read.rfind('\n') + 1);
    std::string_view reason = exception.what();  // "[json...] parse error at line 1, column 2: syntax error ..."
    if (const auto column = reason.find(": "); column != reason.npos) reason.remove_prefix(column + 2);
    error = fmt::format("line {}, column {}: {}", 1 + std::ranges::count(read, '\n'), 1 + line.size(), excerpt(reason));
    return false;
  }

 private:
  /// Where the next value goes.
  Json& next() {
    if (open_.empty()) return document;
    if (open_.back()->is_object()) return open_.back()->members().back().value;
    return open_.back()->elements().emplace_back();
  }
  bool add(Json value) {
    next() = std::move(value);
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= static_cast<std::size_t>(limits_.max_levels)) {
      error = fmt::format("more than {} levels", limits_.max_levels);
      return false;
    }
    Json& place = next();
    place = std::move(value);
    open_.push_back(&place);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  JsonLimits limits_;
  std::vector<Json*> open_;  ///< Lists and objects that are not complete; nothing is added to those outside meanwhile.
};

/// One \uNNNN, or the two of UTF-16.
void write_escaped(std::string& out, char32_t number) {
  const auto code = static_cast<std::uint32_t>(number);
  if (code < 0x10000)
    out += fmt::format("\\u{:04x}", code);
  else
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
}

void write_text(std::string& out, const std::string& any_text, JsonCharacters characters) {
  const bool ascii = characters == JsonCharacters::ascii;
  const std::string text = ascii ? any_text : as_utf8(any_text);
  out += '"';
  for (std::string_view rest = text; !rest.empty();) {
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    auto [number, bytes] = first_character(rest);
    if (bytes == 0) {  // Python's surrogateescape
      number = 0xdc00 + static_cast<unsigned char>(rest[0]);
      bytes = 1;
    }
    if (const auto i = kEscaped.find(rest[0]); i != kEscaped.npos)
      (out += '\\') += kLetters[i];
    else if (is_control(number) || (ascii && number > 0x7f))  // a terminal would obey a control character
      write_escaped(out, number);
    else
      out += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  out += '"';
}

}  // namespace

Json::Json(std::string text) : value_(JsonBox(std::move(text))) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(const char* text) : Json(std::string(text)) {}
Json::Json(std::initializer_list<JsonMember> members) : value_(JsonBox(Object(members))) {}
Json::Json(Array elements) : value_(JsonBox(std::move(elements))) {}
Json::Json(const Json&) = default;
Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, std::monostate{})) {}
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&& other) noexcept {
  value_ = std::exchange(other.value_, std::monostate{});
  return *this;
}
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> elements) {
  Json result;
  result.value_ = JsonBox(Array(elements));
  return result;
}

Json Json::object(std::initializer_list<JsonMember> members) {
  Json result;
  result.value_ = JsonBox(Object(members));
  return result;
}

bool Json::is_whole(std::int64_t min, std::int64_t max) const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_))
    return std::in_range<std::int64_t>(*value) && static_cast<std::int64_t>(*value) >= min &&
           static_cast<std::int64_t>(*value) <= max;
  const auto* value = std::get_if<std::int64_t>(&value_);
  return value != nullptr && *value >= min && *value <= max;
}

bool Json::is_unsigned_whole() const { return std::holds_alternative<std::uint64_t>(value_) || is_whole(0); }

bool Json::flag() const {
  if (!is_flag()) refuse(*this, "true or false");
  return std::get<bool>(value_);
}

std::int64_t Json::whole(std::int64_t min, std::int64_t max) const {
  if (!is_whole(min, max)) refuse(*this, fmt::format("a whole number from {} to {}", min, max));
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<std::int64_t>(*value);
  return std::get<std::int64_t>(value_);
}

std::uint64_t Json::unsigned_whole() const {
  if (!is_unsigned_whole()) refuse(*this, "a whole number of at least 0");
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  return static_cast<std::uint64_t>(std::get<std::int64_t>(value_));
}

double Json::number() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  refuse(*this, "a number");
}

const std::string& Json::text() const {
  if (!is_text()) refuse(*this, "a text");
  return *std::get<JsonBox<std::string>>(value_);
}

std::string Json::text_or(std::string_view otherwise) const { return is_text() ? text() : std::string(otherwise); }

const Json::Array& Json::elements() const {
  if (!is_array()) refuse(*this, "a list");
  return *std::get<JsonBox<Array>>(value_);
}
Json::Array& Json::elements() { return const_cast<Array&>(std::as_const(*this).elements()); }

const Json::Object& Json::members() const {
  if (!is_object()) refuse(*this, "an object");
  return *std::get<JsonBox<Object>>(value_);
}
Json::Object& Json::members() { return const_cast<Object&>(std::as_const(*this).members()); }

std::size_t Json::size() const { return is_array() ? elements().size() : is_object() ? members().size() : 0; }

Json::Array::const_iterator Json::begin() const { return is_array() ? elements().begin() : Array::const_iterator(); }
Json::Array::const_iterator Json::end() const { return is_array() ? elements().end() : Array::const_iterator(); }

const Json* Json::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(members(), name, &JsonMember::name);
  return found == members().end() ? nullptr : &found->value;
}

const Json& Json::operator[](std::string_view name) const {
  const Json* found = find(name);
  return found == nullptr ? kNull : *found;
}

const Json& Json::operator[](std::size_t index) const {
  return is_array() && index < size() ? elements()[index] : kNull;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = JsonBox(Object());
  if (const Json* found = find(name)) return const_cast<Json&>(*found);
  return members().emplace_back(std::string(name), Json()).value;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* found = find(name)) return *found;
  if (!is_object()) refuse(*this, "an object");
  throw JsonError(fmt::format("{} is missing", excerpt(name, 60)));
}

const Json& Json::at(std::size_t index) const {
  if (index < elements().size()) return elements()[index];
  throw JsonError(fmt::format("expected a list of more than {} elements, found one of {}", index, size()));
}

void Json::push_back(Json element) {
  if (is_null()) value_ = JsonBox(Array());
  elements().push_back(std::move(element));
}

void Json::update(const Json& object) {
  for (const auto& [name, value] : object.members()) (*this)[name] = value;
}

Json& Json::sort() {
  if (is_array())
    for (Json& element : elements()) element.sort();
  if (is_object()) {
    for (JsonMember& member : members()) member.value.sort();
    std::ranges::sort(members(), {}, &JsonMember::name);
  }
  return *this;
}

std::string Json::dump(int indent, JsonCharacters characters) const {
  std::string out;
  write(out, indent, 0, characters);
  return out;
}

void Json::write(std::string& out, int indent, int level, JsonCharacters characters) const {
  if (is_array() || is_object()) {
    const bool is_list = is_array();
    const auto new_line = [&](int spaces) {
      if (indent >= 0) out.append("\n").append(static_cast<std::size_t>(spaces), ' ');
    };
    const auto separate = [&](bool first) {
      if (!first) out += ',';
      new_line(indent * (level + 1));
    };
    out += is_list ? '[' : '{';
    if (is_list)
      for (const Json& element : elements()) {
        separate(&element == elements().data());
        element.write(out, indent, level + 1, characters);
      }
    else
      for (const JsonMember& member : members()) {
        separate(&member == members().data());
        write_text(out, member.name, characters);
        out += indent >= 0 ? ": " : ":";
        member.value.write(out, indent, level + 1, characters);
      }
    if (!empty()) new_line(indent * level);
    out += is_list ? ']' : '}';
  } else if (is_text()) {
    write_text(out, text(), characters);
  } else if (is_flag()) {
    out += flag() ? "true" : "false";
  } else if (const auto* value = std::get_if<double>(&value_)) {
    out += nlohmann::json(*value).dump();
  } else if (is_unsigned_whole()) {
    out += std::to_string(unsigned_whole());
  } else {
    out += is_null() ? "null" : std::to_string(whole());
  }
}

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (is_whole() && other.is_whole()) return whole() == other.whole();
    if (is_unsigned_whole() && other.is_unsigned_whole()) return unsigned_whole() == other.unsigned_whole();
    return number() == other.number();
  }
  if (value_.index() != other.value_.index() || size() != other.size()) return false;
  if (!is_object()) return value_ == other.value_;
  return std::ranges::equal(sorted_by_name(members()), sorted_by_name(other.members()),
                            [](const JsonMember* a, const JsonMember* b) { return *a == *b; });
}

Json parse_json(std::string_view text, JsonLimits limits) {
  if (text.size() > limits.max_bytes)
    throw JsonError(fmt::format("{} bytes of JSON, expected at most {}", text.size(), limits.max_bytes));
  Builder builder(text, limits);
  if (!nlohmann::json::sax_parse(text, &builder)) throw JsonError(builder.error);
  return std::move(builder.document);
}

std::optional<Json> parsed_json(std::string_view text, JsonLimits limits) {
  try {
    return parse_json(text, limits);
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

Json read_json_object(const std::string& path, std::string_view what, std::uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes)
    throw InputError(fmt::format("{}: has {} bytes, expected {} of at most {}", path, file.size(), what, max_bytes));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  try {
    Json document = parse_json(text);
    if (!document.is_object())
      throw JsonError(fmt::format("expected {}, a JSON object, found {}", what, found_text(document)));
    return document;
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
}

std::string found_text(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return excerpt(value.dump(), 60);
}

}  // namespace attest
