// Finds dumps by the manifests of results.
#include "experiments/study_view/study_dumps.h"

#include "analysis/run/study_input.h"

namespace attest {

const DumpReader* StudyDumps::of(const PlacedSample& place) {
  const std::pair key(place.file, place.dump);
  if (const auto open = dumps_.find(key); open != dumps_.end()) return &open->second;
  const FoundInput input = find_input(place.file->manifest(), place.dump, place.file->path());
  if (input.path.empty()) {
    problem_ = input.problem;
    return nullptr;
  }
  hashed_ = hashed_ && input.hashed;
  return &dumps_.emplace(key, DumpReader(input.path)).first->second;
}

std::string not_hashed_text(bool hashed) {
  return hashed ? "" : "; the dump agrees in size and was not modified since, its hash was not compared";
}

}  // namespace attest
