// Error messages for command lines that do not parse.
#pragma once

#include <string>
#include <vector>

#include "experiments/cli/parse/command.h"

namespace attest {

enum class ParseFault { missing, too_much, number_of_values, conversion, other };

struct ParseFailure {
  ParseFault fault = ParseFault::other;
  std::string words;                 ///< of the parser
  std::vector<std::string> unknown;  ///< arguments that nothing takes
};

/// One sentence on what is wrong; for an unknown command or option it lists the nearest known ones. `program` is the
/// command after parsing has failed.
std::string explain(const Command& program, const ParseFailure& failure);

/// Throws UsageError if `words` give a flag a value, `--resume=5`: the parser would take it for true.
void refuse_flag_values(const Command& program, const std::vector<std::string>& words);

}  // namespace attest
