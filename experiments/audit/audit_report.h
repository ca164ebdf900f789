// What `attest audit` prints: text for people, JSON for programs.
#pragma once

#include <string>

#include "analysis/audit/dump_audit.h"
#include "dumps/base/json.h"
#include "dumps/dump_info.h"

namespace attest {

struct AuditReport {
  const DumpInfo& dump;
  const DumpAudit& audit;
  std::string expected;  ///< the selector as text, with its setting: "kv_cache:k=fp8_e4m3,v=fp8_e4m3"
  std::string device;    ///< "CPU, 2 threads"
  double roundings = 0;
};

std::string audit_text(const AuditReport& report);
Json audit_json(const AuditReport& report);

/// One sentence on what explains rows that differ by more than rounding. It claims no more than the numbers do.
/// `prompt_alone`: as in LayerAudit.
std::string explanation_text(const Explanation& found, bool prompt_alone);

}  // namespace attest
