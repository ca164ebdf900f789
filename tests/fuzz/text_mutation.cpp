// Mutation of texts by words.
#include "tests/fuzz/text_mutation.h"

#include <cctype>

namespace attest::fuzz {
namespace {

constexpr std::string_view kOddTexts[]{"0",
                                       "-1",
                                       "1",
                                       "1e999",
                                       "nan",
                                       "inf",
                                       "-inf",
                                       "1e-400",
                                       "0x10",
                                       "2147483647",
                                       "2147483648",
                                       "-2147483649",
                                       "9223372036854775807",
                                       "18446744073709551616",
                                       "0.1",
                                       "true",
                                       "null",
                                       "",
                                       " ",
                                       ".",
                                       "..",
                                       "/",
                                       "a/b",
                                       "%",
                                       "\x1b[2J",
                                       "\n",
                                       "\r\n",
                                       "\t",
                                       "\xff\xfe",
                                       "\xc3\x28",
                                       "\xe2\x80\xae",
                                       "\xc2\x85",
                                       "ä",
                                       "{}",
                                       "%s%n",
                                       "'",
                                       "\"",
                                       "\\",
                                       "\\u0000"};

std::size_t place_in(const std::string& text, RandomStream& random) { return random.below(text.size() + 1); }

/// Replaces a run of digits.
void change_number(std::string& text, RandomStream& random) {
  const std::size_t begin = text.find_first_of("0123456789", place_in(text, random));
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
  text.replace(begin, end - begin, random.below(4) == 0 ? std::to_string(random.below(1000)) : odd_text(random));
}

std::string repeated(std::string_view piece, std::uint64_t times) {
  std::string all;
  for (; times > 0; --times) all += piece;
  return all;
}

/// Mostly a few; at times thousands.
std::uint64_t count_of(RandomStream& random) {
  const std::uint64_t kind = random.below(64);
  return kind == 0 ? 20'000 : kind < 4 ? 2000 : kind < 12 ? 70 : 1 + random.below(9);
}

}  // namespace

std::string odd_text(RandomStream& random) {
  const std::string_view text = any_of(random, kOddTexts);
  if (random.below(16) != 0) return std::string(text);
  return repeated(text.empty() ? "x" : text, count_of(random));
}

std::string mutated_text(std::string text, std::span<const std::string_view> words, RandomStream& random) {
  for (std::uint64_t times = 1 + random.below(4); times > 0; --times) {
    const std::size_t at = place_in(text, random);
    const std::string_view word = any_of(random, words);
    switch (random.below(10)) {
      case 0:
        text.insert(at, word);
        break;
      case 1:
        text.replace(at, random.below(12), word);
        break;
      case 2:
        text.erase(at, 1 + random.below(random.below(4) == 0 ? 200 : 8));
        break;
      case 3:  // a piece again, elsewhere
        text.insert(at, text.substr(place_in(text, random), random.below(80)));
        break;
      case 4: {  // a line again
        const std::size_t begin = text.rfind('\n', at) + 1, end = std::min(text.find('\n', at), text.size());
        if (begin < end) text.insert(begin, text.substr(begin, end - begin) + "\n");
        break;
      }
      case 5:
        text.insert(at, repeated(word, count_of(random)));
        break;
      case 6:
        text.insert(at, odd_text(random));
        break;
      case 7:
        change_number(text, random);
        break;
      case 8:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 9:
        if (random.below(4) == 0) text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace attest::fuzz
