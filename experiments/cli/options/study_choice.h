// Parses the arguments of --layers, --samples and --queries, and lists of labels.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study_plan.h"
#include "experiments/cli/parse/command.h"

namespace attest {

/// Parses "0-31", "0,5,8-11" or "8-" (from 8 on) as ranges of numbers. `noun`: what they number, for the UsageError,
/// which names `option`.
std::vector<std::pair<int, int>> parse_ranges(std::string_view text, std::string_view option, std::string_view noun);

/// parse_ranges() for --layers.
std::vector<std::pair<int, int>> parse_layers(std::string_view text);

/// Parses "all", "last:4" or positions such as "1000,2047". Throws UsageError.
QueryChoice parse_queries(std::string_view text);

/// "a,b": names separated by commas.
std::vector<std::string> parse_names(std::string_view text);

/// The part of the dumps that is studied, as it was typed.
struct StudyChoiceText {
  std::string layers, samples;  ///< empty: all
  std::string queries = "all";

  /// Throws UsageError.
  StudyChoice parse() const;
};

/// Adds --layers, --samples and --queries.
void add_study_choice(Command& command, StudyChoiceText& choice);

/// The items of a list that was split at commas. An item may have commas itself: the longest that `is_item` knows is
/// taken. A part that begins no item stands for itself.
std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item);

}  // namespace attest
