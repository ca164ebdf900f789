// A reader of the one Python literal that the header is.
#include "dumps/import/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& place) : rest_(text), place_(place) {}

  void parse(NpyHeader& header) {
    std::set<std::string> keys;
    take('{');
    while (!next_is('}')) {
      const std::string key = string();
      take(':');
      if (key == "descr")
        header.descr = next_is('[') ? structured() : string();
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        header.shape = tuple();
      else
        fail("a key 'descr', 'fortran_order' or 'shape'");
      if (!keys.insert(key).second) fail("each key once");
      if (!next_is('}')) take(',');
    }
    take('}');
    skip_space();
    if (!rest_.empty()) fail("nothing after '}'");
    if (keys.size() != 3) fail("the keys 'descr', 'fortran_order' and 'shape'");
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw InputError(
        fmt::format("{}: array header: expected {}, found '{}'", place_, expected, printable(rest_.substr(0, 16))));
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size())); }
  bool next_is(char c) {
    skip_space();
    return rest_.starts_with(c);
  }
  void take(char c) {
    if (!next_is(c)) fail(fmt::format("'{}'", c));
    rest_.remove_prefix(1);
  }

  std::string string() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("a string");
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail("True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    take('(');
    while (!next_is(')')) {
      std::int64_t value = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc{} || value < 0) fail("a whole number");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote them
      values.push_back(value);
      if (!next_is(')')) take(',');
    }
    take(')');
    return values;
  }

  /// A list of fields: no type of a dump, so its content does not matter.
  std::string structured() {
    int depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      depth += rest_[i] == '[' ? 1 : rest_[i] == ']' ? -1 : 0;
      if (depth > 0) continue;
      rest_.remove_prefix(i + 1);
      return "[...]";
    }
    fail("a list that ends");
  }

  std::string_view rest_;
  const std::string& place_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> start, const std::string& place) {
  constexpr std::string_view magic = "\x93NUMPY";
  const auto fail = [&](std::string_view expected, std::string_view found) {
    throw InputError(fmt::format("{}: array header: expected {}, found {}", place, expected, found));
  };
  if (start.size() < 10 ||
      !std::equal(magic.begin(), magic.end(), start.begin(), [](char a, std::byte b) { return std::byte(a) == b; }))
    fail("a NumPy array", "other bytes");
  const int version = std::to_integer<int>(start[6]);
  if (version < 1 || version > 3) fail("version 1, 2 or 3", fmt::format("{}", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (start.size() < 8 + length_bytes) fail("its length", "the end of the array");
  const std::uint64_t length =
      version == 1 ? little_endian<std::uint16_t>(&start[8]) : little_endian<std::uint32_t>(&start[8]);
  const std::span<const std::byte> after = start.subspan(8 + length_bytes);
  if (length > after.size()) fail(fmt::format("at most {} bytes", after.size()), fmt::format("a length of {}", length));

  NpyHeader header;
  header.bytes = 8 + length_bytes + length;
  HeaderText({reinterpret_cast<const char*>(after.data()), length}, place).parse(header);
  return header;
}

}  // namespace attest
