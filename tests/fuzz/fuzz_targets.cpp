// The list of readers.
#include "tests/fuzz/fuzz_targets.h"

namespace attest::fuzz {

std::span<const TargetInfo* const> all_targets() {
  static const TargetInfo* const targets[]{
      &kDumpTarget,     &kEstimatesTarget,  &kResultsTarget,      &kTasksTarget,          &kUnitTarget,
      &kStudyTarget,    &kProcessTarget,    &kNoteTarget,         &kChunkTarget,          &kAnswersTarget,
      &kSettingsTarget, &kChannelsTarget,   &kKernelReportTarget, &kRecommendationTarget, &kConfigTarget,
      &kSelectorTarget, &kGridTarget,       &kScalesTarget,       &kHeadWeightsTarget,    &kRopeTarget,
      &kPackedTarget,   &kModelBenchTarget,
#ifdef ATTEST_FUZZ_FIGURES
      &kFiguresTarget,
#endif
  };
  return targets;
}

}  // namespace attest::fuzz
