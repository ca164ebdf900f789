// Reads token ids from dumps.
#include "experiments/report/query_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"

namespace attest {
namespace {

constexpr std::int64_t kBefore = 8, kAfter = 2;

struct RecordedDump {
  std::string path;
  std::int64_t bytes = -1;  ///< -1: not recorded
};

/// Where the manifest says that the dump was; a relative path was that of the study's folder.
RecordedDump recorded(const ReportSample& sample) {
  RecordedDump dump{.path = sample.study_dump().path};
  const Json manifest = parsed_json(sample.file->manifest()).value_or(nullptr);
  const Json& entry = manifest["configuration"]["dumps"][sample.dump];
  dump.path = entry["path"].text_or(dump.path);
  if (entry["bytes"].is_whole()) dump.bytes = entry["bytes"].whole();
  return dump;
}

}  // namespace

QueryTokens::SampleTokens QueryTokens::read(const ReportSample& sample) {
  const RecordedDump dump = recorded(sample);
  const auto without = [&](std::string_view why) {
    if (problem_.empty()) problem_ = fmt::format("No token ids of {}: {}.", printable(dump.path), why);
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(dump.path, error))
    return without("the dump is not there any more"), SampleTokens{};
  if (dump.bytes >= 0 && std::filesystem::file_size(dump.path, error) != static_cast<std::uintmax_t>(dump.bytes))
    return without("the file there has another size than the dump that was studied"), SampleTokens{};
  SampleTokens tokens;
  try {
    const DumpReader reader(dump.path);
    for (std::size_t s = 0; s < reader.info().samples.size(); ++s)
      if (auto ids = reader.read_array<std::int32_t>(s, "tokens"); !ids.empty())
        tokens[reader.info().samples[s].name] = std::move(ids);
  } catch (const Error&) {
    return without("the dump cannot be read"), SampleTokens{};
  }
  if (tokens.empty()) without("the dump has none");
  return tokens;
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
