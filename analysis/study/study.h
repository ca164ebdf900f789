// Description of a study: dumps, selectors with their grids, chosen samples, layers and queries. The command line fills
// it; manifest, layer studies and results read it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Most tokens of a sample's spans for which results have a value each.
inline constexpr std::int64_t kMaxSpanTokens = 512;

/// One sample of a study, with the axes of its results.
struct StudySample {
  std::string name;
  std::string task;
  std::int64_t num_tokens = 0;
  std::vector<int> layers;                    ///< ascending
  std::vector<std::int64_t> query_positions;  ///< [N] positions of the studied queries
  bool has_spans = false;
  std::vector<std::int64_t> span_tokens{};  ///< [T] of the union of its spans; empty if more than kMaxSpanTokens
  std::vector<float> margin{};              ///< [N] of the studied queries; empty if the dump has none
  /// Text attributes of the dump's sample besides those above, where it has them: "document".
  std::map<std::string, std::string> attributes{};
};

/// One dump of a study.
struct StudyDump {
  std::string path;
  std::string model;
  int num_layers = 0;
  AttentionShape shape;
  std::vector<StudySample> samples;  ///< filled by plan_study()
  std::string engine{}, kv_cache{};  ///< DumpInfo
};

/// A selector with the grid of settings at which it is evaluated.
struct StudySelector {
  std::string label;         ///< name of its group in the results
  std::string name;          ///< as registered: "ffd"
  std::string options_json;  ///< every option with its value, but dense_heads only where there are some
  SettingKind kind = SettingKind::none;
  std::vector<Setting> grid;                ///< [S] in the order given; one Setting{} for SettingKind::none
  std::vector<std::string> setting_labels;  ///< [S] as typed; "" for SettingKind::none
  /// The user did not name the selector. If it does not support a dump's head dimensions, it is dropped with a notice.
  bool by_default = false;
  std::shared_ptr<Selector> selector{};  ///< null in a study that was read from results
};

/// Makes a StudySelector; name, options and kind come from `selector`. `labels` becomes setting_labels.
StudySelector make_study_selector(const std::string& label, std::shared_ptr<Selector> selector,
                                  std::vector<Setting> grid, std::vector<std::string> labels);

/// False if io_ratio lacks the bytes that the selector's estimate reads (Selector::counts_scan).
bool counts_scan(const StudySelector& selector);

/// Whether a setting is not the same for all KV heads, because the option settings_file adds to it.
bool shifts_settings(const StudySelector& selector);

/// The queries of each sample: all of them, its last ones, or those at given positions.
struct QueryChoice {
  enum class Kind : std::uint8_t { all, last, positions };
  Kind kind = Kind::all;
  std::int64_t last = 0;
  std::vector<std::int64_t> positions;
};

/// The end of a range that goes on to the last layer or unit.
inline constexpr int kOpenEnd = std::numeric_limits<int>::max();

/// Which samples, layers and queries of the dumps are studied.
struct StudyChoice {
  std::vector<std::string> samples;         ///< names; empty: all
  std::vector<std::string> left_out;        ///< names of samples that are not studied
  std::vector<std::pair<int, int>> layers;  ///< inclusive ranges of layer numbers, to kOpenEnd at most; empty: all
  QueryChoice queries;
};

struct Study {
  std::vector<StudyDump> dumps;
  std::vector<StudySelector> selectors;
  StudyChoice choice;
  double salient_delta = 5;  ///< nats; a token is salient if its score is at most this far below the row's maximum
  std::vector<double> lambdas{0.25, 0.5, 1, 1.5, 2, 3, 4, 6};  ///< nats; thresholds of the scan error's tails
  bool skip_bad_layers = false;  ///< skip a layer with NaN, Inf or an overflow, with a notice
};

/// One unit of work: indices into Study::dumps and its samples, and the number of the layer.
struct UnitKey {
  std::size_t dump = 0;
  std::size_t sample = 0;
  int layer = 0;
  auto operator<=>(const UnitKey&) const = default;
};

}  // namespace attest
