// Matches samples by the content of their dumps and their names.
#include "experiments/compare/prompt_matching.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "analysis/results/manifest_inputs.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// A few names, for a sentence.
std::string some_names(const std::vector<std::string>& names) {
  return first_few(names, 3, ", ", [](const std::string& name) { return fmt::format("'{}'", excerpt(name)); });
}

/// The content hash of each dump in the manifest; empty where there is none.
std::vector<std::string> hashes_of_dumps(const ResultsFile& file) {
  const std::vector<ManifestInput> inputs = manifest_inputs(file.manifest());
  std::vector<std::string> hashes(file.study().dumps.size());
  for (std::size_t d = 0; d < std::min(hashes.size(), inputs.size()); ++d) hashes[d] = inputs[d].content_hash;
  return hashes;
}

const StudyDump& dump_at(const ResultsFile& file, SamplePlace place) { return file.study().dumps[place.dump]; }
const StudySample& sample_at(const ResultsFile& file, SamplePlace place) {
  return dump_at(file, place).samples[place.sample];
}

std::string model_of(const ResultsFile& file) {
  std::vector<std::string> models;
  for (const StudyDump& dump : file.study().dumps)
    if (!dump.samples.empty() && std::ranges::count(models, dump.model) == 0) models.push_back(dump.model);
  if (models.empty()) throw InputError(fmt::format("{}: holds no sample", file.path()));
  if (models.size() > 1)
    throw InputError(fmt::format("{}: holds several models, {}; expected one, which is compared with itself",
                                 file.path(), some_names(models)));
  return models.front();
}

/// The samples of a file that are not matched yet, in order.
using OpenSamples = std::map<std::pair<std::size_t, std::size_t>, std::string>;

/// Samples by what identifies them. A prompt that is there twice cannot be one unit.
using SamplesByKey = std::map<std::pair<std::string, std::string>, std::vector<SamplePlace>>;

[[noreturn]] void refuse_second(const ResultsFile& file, const std::vector<SamplePlace>& places) {
  throw InputError(
      fmt::format("{}: prompt '{}' is there twice, of the dumps {} (/dumps/{}) and {} (/dumps/{}); "
                  "expected each prompt once",
                  file.path(), excerpt(sample_at(file, places[0]).name), excerpt(dump_at(file, places[0]).path),
                  places[0].dump, excerpt(dump_at(file, places[1]).path), places[1].dump));
}

class Matching {
 public:
  Matching(const ResultsFile& first, const ResultsFile& second) : files_{&first, &second} {
    for (std::size_t f = 0; f < 2; ++f) {
      const std::vector<StudyDump>& dumps = files_[f]->study().dumps;
      for (std::size_t d = 0; d < dumps.size(); ++d)
        for (std::size_t s = 0; s < dumps[d].samples.size(); ++s) open_[f][{d, s}] = dumps[d].samples[s].name;
    }
  }

  /// Matches what has one partner of its key. Samples for which `key` is empty stay open.
  template <class Key>
  void match(Key key) {
    SamplesByKey by_key[2];
    for (std::size_t f = 0; f < 2; ++f)
      for (const auto& [place, name] : open_[f])
        if (const auto found = key(f, place.first, name)) by_key[f][*found].push_back({place.first, place.second});
    for (const auto& [found, places] : by_key[0]) {
      const auto other = by_key[1].find(found);
      if (other == by_key[1].end()) continue;
      if (places.size() > 1) refuse_second(*files_[0], places);
      if (other->second.size() > 1) refuse_second(*files_[1], other->second);
      partner_[{places[0].dump, places[0].sample}] = other->second[0];
      open_[0].erase({places[0].dump, places[0].sample});
      open_[1].erase({other->second[0].dump, other->second[0].sample});
    }
  }

  std::size_t matched() const { return partner_.size(); }
  const std::map<std::pair<std::size_t, std::size_t>, SamplePlace>& partners() const { return partner_; }
  std::vector<std::string> open_names(std::size_t file) const {
    std::vector<std::string> names;
    for (const auto& [place, name] : open_[file]) names.push_back(name);
    return names;
  }

 private:
  const ResultsFile* files_[2];
  OpenSamples open_[2];
  std::map<std::pair<std::size_t, std::size_t>, SamplePlace> partner_;
};

std::string shape_text(const AttentionShape& shape) {
  return fmt::format("{} query heads, {} KV heads, head_dim {}, value_dim {}", shape.num_query_heads,
                     shape.num_kv_heads, shape.head_dim, shape.value_dim);
}

std::vector<int> chosen_layers(const StudySample& sample, const std::vector<std::pair<int, int>>& ranges) {
  std::vector<int> chosen;
  std::ranges::copy_if(sample.layers, std::back_inserter(chosen), [&](int layer) {
    return ranges.empty() ||
           std::ranges::any_of(ranges, [&](const auto& r) { return r.first <= layer && layer <= r.second; });
  });
  return chosen;
}

/// Fills in the layers. Throws InputError if the cells of the two samples are not of the same places.
void pair_places(const ResultsFile& first, const ResultsFile& second, const std::vector<std::pair<int, int>>& layers,
                 MatchedPrompt& prompt) {
  const StudySample& a = sample_at(first, prompt.first);
  const StudySample& b = sample_at(second, prompt.second);
  const auto refuse = [&](std::string_view what, const std::string& in_a, const std::string& in_b) {
    throw InputError(fmt::format("prompt '{}': its {} differ, so that its cells cannot be compared: {} in {}, {} in {}",
                                 excerpt(prompt.name), what, in_a, first.path(), in_b, second.path()));
  };
  const AttentionShape &shape_a = dump_at(first, prompt.first).shape, &shape_b = dump_at(second, prompt.second).shape;
  if (shape_a != shape_b) refuse("numbers of heads", shape_text(shape_a), shape_text(shape_b));
  if (a.num_tokens != b.num_tokens)
    refuse("numbers of tokens", fmt::format("{}", a.num_tokens), fmt::format("{}", b.num_tokens));
  if (a.query_positions != b.query_positions) {
    const auto text = [](const std::vector<std::int64_t>& positions) {
      return positions.size() > 8
                 ? fmt::format("{} from {} to {}", positions.size(), positions.front(), positions.back())
                 : join(positions, ", ");
    };
    refuse("query positions", text(a.query_positions), text(b.query_positions));
  }
  prompt.layers = chosen_layers(a, layers);
  const std::vector<int> other = chosen_layers(b, layers);
  if (prompt.layers != other)
    refuse(layers.empty() ? "layers (--layers chooses some)" : "layers", join(prompt.layers, ", "), join(other, ", "));
  for (const int layer : prompt.layers)
    prompt.layer_index.push_back(
        {static_cast<std::size_t>(std::ranges::lower_bound(a.layers, layer) - a.layers.begin()),
         static_cast<std::size_t>(std::ranges::lower_bound(b.layers, layer) - b.layers.begin())});
}

/// Throws UsageError for a range that chooses no layer of any prompt.
void check_layers(const MatchedPrompts& matched, const ResultsFile& first,
                  const std::vector<std::pair<int, int>>& ranges) {
  for (const auto& range : ranges) {
    const bool found = std::ranges::any_of(matched.prompts, [&](const MatchedPrompt& p) {
      return !chosen_layers(sample_at(first, p.first), {range}).empty();
    });
    if (found) continue;
    std::set<int> there;
    for (const MatchedPrompt& p : matched.prompts) {
      const StudySample& sample = sample_at(first, p.first);
      there.insert(sample.layers.begin(), sample.layers.end());
    }
    throw UsageError(fmt::format("--layers: no prompt has the layer {}{}; there are {}", range.first,
                                 range.second == range.first ? ""
                                 : range.second == kOpenEnd  ? " or a later one"
                                                             : fmt::format(" to {}", range.second),
                                 join(there, ", ")));
  }
}

}  // namespace

MatchedPrompts match_prompts(const ResultsFile& first, const ResultsFile& second,
                             const std::vector<std::pair<int, int>>& layers) {
  const std::string model = model_of(first), other_model = model_of(second);
  if (model != other_model)
    throw InputError(fmt::format("different models cannot be compared: {} is of '{}', {} of '{}'", first.path(),
                                 excerpt(model), second.path(), excerpt(other_model)));
  const std::vector<std::string> hashes[2] = {hashes_of_dumps(first), hashes_of_dumps(second)};
  using Key = std::optional<std::pair<std::string, std::string>>;
  Matching matching(first, second);
  matching.match([&](std::size_t file, std::size_t dump, const std::string& name) -> Key {
    if (hashes[file][dump].empty()) return std::nullopt;
    return std::pair(hashes[file][dump], name);
  });
  const std::size_t by_hash = matching.matched();
  matching.match([](std::size_t, std::size_t, const std::string& name) -> Key { return std::pair("", name); });

  MatchedPrompts matched{.prompts = {},
                         .only_first = matching.open_names(0),
                         .only_second = matching.open_names(1),
                         .by_name = matching.matched() - by_hash};
  if (matching.matched() == 0)
    throw InputError(fmt::format("no prompt is common: {} has {}, {} has {}", first.path(),
                                 some_names(matched.only_first), second.path(), some_names(matched.only_second)));
  for (const auto& [place, partner] : matching.partners()) {
    MatchedPrompt& prompt = matched.prompts.emplace_back();
    prompt.first = {place.first, place.second};
    prompt.second = partner;
    prompt.name = sample_at(first, prompt.first).name;
    pair_places(first, second, layers, prompt);
  }
  check_layers(matched, first, layers);
  return matched;
}

}  // namespace attest
