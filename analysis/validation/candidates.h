// Labels, each with one setting, to choose among as if they were the settings of one selector.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/study/study.h"

namespace attest {

/// Indices into the selectors of a file and into the grid of the selector.
struct LabelledSetting {
  std::size_t selector = 0;
  std::optional<std::size_t> setting = {};  ///< empty: no setting was named
  bool operator==(const LabelledSetting&) const = default;
};

/// What LABEL or LABEL@SETTING names in the file. Labels may have '@' themselves. Empty if there is no such thing.
std::optional<LabelledSetting> find_labelled(const ResultsFile& file, const std::string& typed);

/// Where LABEL of LABEL@SETTING is in the file and its SETTING is not: which it has. Else empty.
std::string unknown_setting(const ResultsFile& file, const std::string& typed);

struct Candidate {
  std::string text;  ///< as typed: "kv_fp8", "ffd@5"
  StudySelector selector;
  std::size_t setting = 0;  ///< index into its grid
};

/// Throws UsageError if the file lacks one of them, if one of them has several settings and none is named, or if two
/// are the same.
std::vector<Candidate> find_candidates(const ResultsFile& file, std::span<const std::string> texts);

/// Where a file has the candidates. Throws UsageError if it lacks one, or has it with other options.
std::vector<LabelledSetting> columns_of(const ResultsFile& file, std::span<const Candidate> candidates);

/// Stands for all of them: its label names them, its grid has their places from 1, its setting_labels their texts. It
/// has no settings of its own.
StudySelector selector_of(std::span<const Candidate> candidates);

}  // namespace attest
