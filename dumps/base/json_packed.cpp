// A byte for the kind of each value, then the value as it is in memory; before texts, lists and objects their length.
#include "dumps/base/json_packed.h"

#include <cstring>

namespace attest {
namespace {

enum class Kind : char { null, no, yes, whole, unsigned_whole, number, text, list, object };

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

void pack(std::string& out, const Json& value) {
  const auto begin = [&](Kind kind) { out += static_cast<char>(kind); };
  if (value.is_null()) {
    begin(Kind::null);
  } else if (value.is_flag()) {
    begin(value.flag() ? Kind::yes : Kind::no);
  } else if (value.is_whole()) {
    begin(Kind::whole);
    append(out, value.whole());
  } else if (value.is_unsigned_whole()) {
    begin(Kind::unsigned_whole);
    append(out, value.unsigned_whole());
  } else if (value.is_number()) {
    begin(Kind::number);
    append(out, value.number());
  } else if (value.is_text()) {
    begin(Kind::text);
    append_text(out, value.text());
  } else if (value.is_array()) {
    begin(Kind::list);
    append(out, std::uint64_t{value.size()});
    for (const Json& element : value.elements()) pack(out, element);
  } else {
    begin(Kind::object);
    append(out, std::uint64_t{value.size()});
    for (const auto& [name, member] : value.members()) {
      append_text(out, name);
      pack(out, member);
    }
  }
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  Json next(int levels) {
    if (levels == 0) throw JsonError("packed values nest too deep");
    switch (static_cast<Kind>(take(1)[0])) {
      case Kind::null:
        return nullptr;
      case Kind::no:
        return false;
      case Kind::yes:
        return true;
      case Kind::whole:
        return number<std::int64_t>();
      case Kind::unsigned_whole:
        return number<std::uint64_t>();
      case Kind::number:
        return number<double>();
      case Kind::text:
        return text();
      case Kind::list: {
        Json list = Json::array();
        for (std::uint64_t count = number<std::uint64_t>(); count > 0; --count) list.push_back(next(levels - 1));
        return list;
      }
      case Kind::object: {
        Json object = Json::object();
        for (std::uint64_t count = number<std::uint64_t>(); count > 0; --count) {
          std::string name(text());
          object.members().push_back({std::move(name), next(levels - 1)});
        }
        return object;
      }
    }
    throw JsonError("packed values have an unknown kind");
  }

  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (bytes_.size() < size) throw JsonError("packed values end too early");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<std::uint64_t>()); }

  std::string_view bytes_;
};

}  // namespace

std::string packed(const Json& value) {
  std::string bytes;
  pack(bytes, value);
  return bytes;
}

Json unpacked(std::string_view bytes) {
  Unpacker unpacker(bytes);
  Json value = unpacker.next(JsonLimits{}.max_levels);
  if (!unpacker.at_end()) throw JsonError("packed values have bytes behind them");
  return value;
}

}  // namespace attest
