// Says where a number is too large to be studied.
#include "analysis/layer/overflow.h"

#include <fmt/core.h>

namespace attest {
std::string describe(const Overflow& overflow, const Study& study, const AttentionLayer& layer) {
  const std::int64_t position = layer.query_positions[static_cast<std::size_t>(overflow.query)];
  const std::string place =
      fmt::format("layer {}, query head {}, query at {}", layer.layer, overflow.query_head, position);
  const std::int64_t token = layer.first_visible_key(position) + overflow.token;
  const auto of_token = [&](const std::string& what) {
    return fmt::format("{}: {} token {} is NaN or beyond {:.3g}, the largest that is studied", place, what, token,
                       kLargestScore);
  };
  const auto label = [&] { return study.selectors[overflow.selector].label; };
  switch (overflow.step) {
    case OverflowStep::score:
      return of_token("the score of");
    case OverflowStep::exact_output:
      return fmt::format("{}: the output is NaN or infinite", place);
    case OverflowStep::estimate:
      return of_token(fmt::format("the score that selector '{}' estimates for", label()));
    case OverflowStep::read_score:
      return of_token(fmt::format("the score that selector '{}' attends with to", label()));
    case OverflowStep::output:
      break;
  }
  return fmt::format("{}: the output of selector '{}' is NaN or infinite", place, label());
}

}  // namespace attest
