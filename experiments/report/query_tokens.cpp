// Reads token ids from dumps.
#include "experiments/report/query_tokens.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/run/study_input.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"

namespace attest {
namespace {

constexpr std::int64_t kBefore = 8, kAfter = 2;

}  // namespace

QueryTokens::SampleTokens QueryTokens::read(const ReportSample& sample) {
  SampleTokens tokens;
  const auto without = [&](std::string_view why) {
    if (problem_.empty()) problem_ = printable(fmt::format("No token ids: {}.", why));
    return SampleTokens{};
  };
  const FoundInput dump = find_input(sample.file->manifest(), sample.dump, sample.file->path(), threads_);
  if (dump.path.empty()) return without(dump.problem);
  try {
    const DumpReader reader(dump.path);
    for (std::size_t s = 0; s < reader.info().samples.size(); ++s)
      if (auto ids = reader.read_array<std::int32_t>(s, "tokens"); !ids.empty())
        tokens[reader.info().samples[s].name] = std::move(ids);
  } catch (const Error&) {
    return without(fmt::format("{} cannot be read", dump.path));
  }
  return tokens.empty() ? without(fmt::format("{} has none", dump.path)) : tokens;
}

const QueryTokens::SampleTokens& QueryTokens::tokens_of(const ReportSample& sample) {
  const auto key = std::pair(sample.file, sample.dump);
  const auto known = dumps_.find(key);
  return known != dumps_.end() ? known->second : dumps_.emplace(key, read(sample)).first->second;
}

std::pair<std::vector<int>, int> QueryTokens::around(const ReportSample& sample, std::int64_t position) {
  const SampleTokens& tokens = tokens_of(sample);
  const auto found = tokens.find(sample.study_sample().name);
  if (found == tokens.end()) return {};
  const auto count = static_cast<std::int64_t>(found->second.size());
  if (position < 0 || position >= count) return {};
  const std::int64_t begin = std::max<std::int64_t>(0, position - kBefore),
                     end = std::min(count, position + kAfter + 1);
  return {{found->second.begin() + begin, found->second.begin() + end}, static_cast<int>(position - begin)};
}

}  // namespace attest
