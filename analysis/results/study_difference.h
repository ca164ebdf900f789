// Where two studies differ, in words.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace attest {

/// Describes the first difference: "selector 1, options, bits = 2, this command has 4". Empty if they are equal.
std::string study_difference(const nlohmann::json& one, const nlohmann::json& this_command);

}  // namespace attest
