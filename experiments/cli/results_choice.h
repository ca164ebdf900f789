// What is typed to choose among the selectors and settings of results: --selectors, --settings.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// The items of a list that was split at commas. An item may have commas itself: the longest that `is_item` knows is
/// taken. A part that begins no item stands for itself.
std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item);

/// Whether `typed` is setting `s` of the selector: as it was typed for the study, or by its value ("5.0" is "5").
bool is_setting(const StudySelector& selector, std::size_t s, const std::string& typed);

}  // namespace attest
