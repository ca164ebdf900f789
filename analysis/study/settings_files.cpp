// Compares settings files with the dumps of a study.
#include "analysis/study/settings_files.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// KV heads are checked with each layer.
void check_dense_layers(const Selector& selector, const StudyDump& dump) {
  for (const DenseHead& head : selector.dense_heads())
    if (head.layer >= dump.num_layers)
      throw UsageError(fmt::format("selector '{}': option 'dense_heads' has {}:{}, and the model of {} has {} layer{}",
                                   selector.name(), head.layer, head.kv_head, dump.path, dump.num_layers,
                                   dump.num_layers == 1 ? "" : "s"));
}

}  // namespace

std::vector<std::string> settings_file_notices(const Study& study) {
  std::vector<std::string> notices;
  for (const StudySelector& chosen : study.selectors) {
    for (const StudyDump& dump : study.dumps) check_dense_layers(*chosen.selector, dump);
    const SettingsFile* file = chosen.selector->settings_file();
    if (file == nullptr) continue;
    for (const StudyDump& dump : study.dumps) {
      check_heads(*file, dump.num_layers, dump.shape.num_kv_heads, dump.path);
      if (file->model.empty() || file->model == dump.model) continue;
      std::string notice = fmt::format("the settings of {} were made for the model '{}', and {} is of '{}'", file->path,
                                       excerpt(file->model), dump.path, dump.model);
      if (std::ranges::find(notices, notice) == notices.end()) notices.push_back(std::move(notice));
    }
  }
  return notices;
}

}  // namespace attest
