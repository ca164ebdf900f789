// The dumps of a study, for experiments that read them again.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "dumps/format/dump_reader.h"
#include "experiments/study_view/model_study.h"

namespace attest {

class StudyDumps {
 public:
  /// The dump of a sample, opened once; null if it cannot be used, and problem() says why. Throws InputError.
  const DumpReader* of(const PlacedSample& place);

  const std::string& problem() const { return problem_; }
  /// Every dump has the hash of the manifest; else some agree in size and were not modified since.
  bool hashed() const { return hashed_; }

 private:
  std::map<std::pair<const ResultsFile*, std::size_t>, DumpReader> dumps_;
  std::string problem_;
  bool hashed_ = true;
};

/// Ends a caption: what hashed() says; empty if all were compared.
std::string not_hashed_text(bool hashed);

}  // namespace attest
