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
  /// `threads` look whether a dump is still the one that was studied.
  explicit StudyDumps(int threads) : threads_(threads) {}

  /// The dump of a sample, opened once; null if it cannot be used, and problem() says why. Throws InputError.
  const DumpReader* of(const PlacedSample& place);

  const std::string& problem() const { return problem_; }
  /// Every dump has the hash of the manifest; else some agree in size and were not modified since.
  bool hashed() const { return hashed_; }

 private:
  const int threads_;
  std::map<std::pair<const ResultsFile*, std::size_t>, DumpReader> dumps_;
  std::string problem_;
  bool hashed_ = true;
};

/// Reads a layer of the sample into `read` once more. False if the dump does not hold it, or not with finite values;
/// `problem` says so. Throws InputError, and LimitError if there is too little memory.
bool read_again(const DumpReader& dump, const StudySample& sample, int layer, int threads, AttentionLayer& read,
                std::string& problem);

/// Ends a caption: what hashed() says; empty if all were compared.
std::string not_hashed_text(bool hashed);

}  // namespace attest
