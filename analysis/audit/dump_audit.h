// The audit of a dump: every layer that has the engine's output.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "analysis/audit/layer_audit.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

struct AuditedLayer {
  std::string sample;
  ElementType element_type = ElementType::float32, output_type = ElementType::float32;
  bool has_lse = false;
  LayerAudit audit;
};

struct DumpAudit {
  std::vector<AuditedLayer> layers;  ///< by layer, then sample as in the dump
  std::size_t without_output = 0;    ///< chosen layers of samples that lack it
  bool scales_of_layers = false;     ///< of the cache that was expected: data sets `cache_scales`

  /// The first layer that leaves its rounding, in its first sample; null: all agree.
  const AuditedLayer* first() const;
  bool agrees() const { return first() == nullptr; }
};

/// Called with the number of layers done, and of all.
using AuditProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Audits the samples, layers and queries of `plan`, of this one dump. Throws InputError if no layer has an output, or
/// if a value of a layer or of its output is not finite.
DumpAudit audit_dump(const DumpReader& dump, const StudyPlan& plan, const AuditOptions& options,
                     const AuditProgress& progress);

}  // namespace attest
