// Changes of a JSON document as a tree, and of its text.
#pragma once

#include <string>

#include "dumps/base/json.h"
#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

/// Another value at up to three places of the tree: of another type, odd, nested deeply, twice, gone, or under another
/// name; then, at times, another text: names that are there twice, numbers that JSON does not know, damage.
std::string mutated_json(Json document, RandomStream& random);

}  // namespace attest::fuzz
