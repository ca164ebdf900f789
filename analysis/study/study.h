// The one description of a study: passed by const reference from the command line to manifest, layer study and results.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// One sample of a study: its axes.
struct StudySample {
  std::string name;
  std::string task;
  std::int64_t num_tokens = 0;
  std::vector<int> layers;                    ///< ascending
  std::vector<std::int64_t> query_positions;  ///< [N] of those studied
  bool has_spans = false;
};

/// One dump of a study.
struct StudyDump {
  std::string path;
  std::string model;
  int num_layers = 0;
  AttentionShape shape;
  std::vector<StudySample> samples;  ///< filled by plan_study()
};

/// A selector with the grid on which it is evaluated.
struct StudySelector {
  std::string label;         ///< names its group in the results
  std::string name;          ///< as registered: "ffd"
  std::string options_json;  ///< every option with its value
  SettingKind kind = SettingKind::none;
  std::vector<Setting> grid;                ///< [S] in the order given; one Setting{} for SettingKind::none
  std::vector<std::string> setting_labels;  ///< [S] as typed; "" for SettingKind::none
  bool by_default = false;  ///< nobody named it: left out, with a notice, where a dump's head dimensions do not suit it
  std::shared_ptr<Selector> selector{};  ///< null in a study that was read from results
};

/// A selector with all that follows from it and its grid. `labels` as StudySelector::setting_labels.
StudySelector make_study_selector(const std::string& label, std::shared_ptr<Selector> selector,
                                  std::vector<Setting> grid, std::vector<std::string> labels);

/// False where io_ratio lacks what the selector's estimate costs (Selector::counts_scan).
bool counts_scan(const StudySelector& selector);

/// The queries of each sample: all of them, its last ones, or those at given positions.
struct QueryChoice {
  enum class Kind : std::uint8_t { all, last, positions };
  Kind kind = Kind::all;
  std::int64_t last = 0;
  std::vector<std::int64_t> positions;
};

/// Which cells of the dumps a study takes.
struct StudyChoice {
  std::vector<std::string> samples;         ///< names; empty: all
  std::vector<std::string> left_out;        ///< names of samples that are not studied
  std::vector<std::pair<int, int>> layers;  ///< inclusive ranges of layer numbers; empty: all
  QueryChoice queries;
};

struct Study {
  std::vector<StudyDump> dumps;
  std::vector<StudySelector> selectors;
  StudyChoice choice;
  double salient_delta = 5;  ///< nats below the row's largest score: which tokens are salient
  std::vector<double> lambdas{0.25, 0.5, 1, 1.5, 2, 3, 4, 6};  ///< where the tails of the scan error are measured
  bool skip_bad_layers = false;  ///< leave a layer with NaN or Inf out, and say so, instead of failing
};

/// One unit of work, (dump, sample, layer): indices into Study::dumps and its samples, and the layer's number.
struct UnitKey {
  std::size_t dump = 0;
  std::size_t sample = 0;
  int layer = 0;
  auto operator<=>(const UnitKey&) const = default;
};

}  // namespace attest
