// Finds dumps by the manifests of results.
#include "experiments/study_view/study_dumps.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/run/study_input.h"
#include "dumps/base/join.h"

namespace attest {

const DumpReader* StudyDumps::of(const PlacedSample& place) {
  const std::pair key(place.file, place.dump);
  if (const auto open = dumps_.find(key); open != dumps_.end()) return &open->second;
  const FoundInput input = find_input(place.file->manifest(), place.dump, place.file->path(), threads_);
  if (input.path.empty()) {
    problem_ = input.problem;
    return nullptr;
  }
  hashed_ = hashed_ && input.hashed;
  return &dumps_.emplace(key, DumpReader(input.path)).first->second;
}

bool read_again(const DumpReader& dump, const StudySample& sample, int layer, int threads, AttentionLayer& read,
                std::string& problem) {
  const std::vector<SampleInfo>& samples = dump.info().samples;
  const auto found = std::ranges::find(samples, sample.name, &SampleInfo::name);
  if (found == samples.end() || found->num_tokens != sample.num_tokens ||
      std::ranges::count(found->layers, layer) == 0) {
    problem = fmt::format("{} does not hold layer {} of sample '{}' with {}", dump.info().path, layer, sample.name,
                          counted(sample.num_tokens, "token"));
    return false;
  }
  const auto index = static_cast<std::size_t>(found - samples.begin());
  dump.check_memory(index, layer);
  if (dump.read_layer(index, layer, read, threads)) return true;
  problem = fmt::format("{} holds NaN or infinity in layer {} of sample '{}'", dump.info().path, layer, sample.name);
  return false;
}

std::string not_hashed_text(bool hashed) {
  return hashed ? "" : "; the dump agrees in size and was not modified since, its hash was not compared";
}

}  // namespace attest
