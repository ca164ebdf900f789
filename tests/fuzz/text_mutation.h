// Changes of a text by the words of its grammar.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

/// Applies up to four changes: words put in, taken out, repeated and nested, other numbers, long names, odd bytes.
std::string mutated_text(std::string text, std::span<const std::string_view> words, RandomStream& random);

/// A name, number or piece of text that readers may stumble over; at times long.
std::string odd_text(RandomStream& random);

}  // namespace attest::fuzz
