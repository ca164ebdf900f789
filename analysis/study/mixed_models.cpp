// Compares each dump with the first of the same model.
#include "analysis/study/mixed_models.h"

#include <fmt/core.h>

#include <map>
#include <set>
#include <tuple>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

auto architecture(const StudyDump& dump) {
  const AttentionShape& shape = dump.shape;
  return std::tuple(dump.num_layers, shape.num_query_heads, shape.num_kv_heads, shape.head_dim, shape.value_dim);
}

std::string words(const StudyDump& dump) {
  const AttentionShape& shape = dump.shape;
  return fmt::format("{} ({}, {} query heads and {} KV heads of {})", dump.path, counted(dump.num_layers, "layer"),
                     shape.num_query_heads, shape.num_kv_heads,
                     shape.head_dim == shape.value_dim ? std::to_string(shape.head_dim)
                                                       : fmt::format("{} and {}", shape.head_dim, shape.value_dim));
}

}  // namespace

std::vector<std::string> mixed_model_notices(std::span<const StudyDump> dumps) {
  std::vector<std::string> notices;
  std::map<std::string, const StudyDump*> first;
  std::set<std::string> told;
  for (const StudyDump& dump : dumps) {
    const StudyDump& other = *first.try_emplace(dump.model, &dump).first->second;
    if (architecture(dump) == architecture(other) || !told.insert(dump.model).second) continue;
    notices.push_back(fmt::format("the model of {} and of {} is called '{}', and means are over both", words(other),
                                  words(dump), excerpt(dump.model)));
  }
  return notices;
}

}  // namespace attest
