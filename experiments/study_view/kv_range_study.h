// How large the keys and values of a study are, and what scales of a KV cache lose of them, read from its dumps.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study_view/model_study.h"
#include "kernels/kv_formats/kv_format.h"

namespace attest {

/// A format with a scale in which a run of the study stored keys or values.
struct ScaledFormat {
  bool keys = true;
  const KvFormat* format = nullptr;
  std::string label;  ///< the first that has it
  std::string scale;  ///< of the run, as typed
  std::string scales_file = {};
};

/// The scales that are compared: 1, the layer's largest magnitude, and that of the run.
inline constexpr std::array<const char*, 3> kScales = {"unit", "amax", "run"};

struct ScaleLoss {
  std::int64_t saturated = 0;  ///< values beyond what the format can hold
  std::int64_t zeroed = 0;     ///< values other than 0 that are read as 0
};

/// What a format loses, over the samples that were run with it.
struct FormatLoss {
  std::int64_t values = 0, nonzero = 0;
  std::array<ScaleLoss, kScales.size()> scales = {};
};

/// The keys or the values of a layer, over all samples. A channel is one of one KV head.
struct SideRange {
  int layer = 0;
  bool keys = true;
  std::int64_t values = 0;
  double max_abs = 0, p9999 = 0;  ///< 99.99 % quantile of magnitudes
  double outlier = 0;             ///< the largest channel's maximum over that of the median channel
  int outlier_kv_head = 0, outlier_channel = 0;
  std::int64_t outliers = 0;   ///< channels at least kOutlier times the median channel
  std::vector<FormatLoss> at;  ///< [KvRangeStudy::formats], 0 for those of the other side
};
inline constexpr double kOutlier = 10;

struct KvRangeStudy {
  std::string problem = {};  ///< why the dumps cannot be used; empty if they can
  bool hashed = true;        ///< StudyDumps::hashed
  std::vector<ScaledFormat> formats = {};
  std::vector<SideRange> ranges = {};  ///< by layer, keys before values; no values where keys hold them
  std::string exceptions = {};         ///< "; ...": which samples are not in all numbers, for captions; empty: none
};

/// The formats with scales that selectors of the study have, each once.
std::vector<ScaledFormat> scaled_formats(const ModelStudy& study);

/// Reads each layer that was studied with a scaled format of each sample once. There must be such a format.
KvRangeStudy kv_range_study(const ModelStudy& study, int threads);

}  // namespace attest
