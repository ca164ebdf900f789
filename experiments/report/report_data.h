// What a report shows, as plain data: findings, tables, figures, the layer x head map, the worst cells, the manifest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plots/page/page.h"

namespace attest {

/// A metric that the map can show.
struct MapMetric {
  enum class Better : std::uint8_t { higher, lower, neither };

  std::string name = {}, unit = {}, definition = {};
  Better better = Better::neither;
  bool has_settings = true;
  bool is_share = false;     ///< at most 1, and 1 is best: what is missing to 1 is stored and coloured
  bool logarithmic = false;  ///< colours and curves
};

struct MapSelector {
  std::string label = {};
  std::string kind = {};                   ///< "delta", "budget", ...; "none": it has no settings
  std::vector<std::string> settings = {};  ///< [S] as typed, the ones that keep less first; {""} for kind "none"
  std::vector<int> marked = {};            ///< those that the methods' papers use
};

struct MapModel {
  std::string name = {};
  std::vector<int> layers = {};           ///< [Y] ascending
  int num_heads = 0;                      ///< Hq
  std::vector<std::string> samples = {};  ///< their names
  std::vector<MapSelector> selectors = {};
};

/// One metric of one selector over the map: [Y, Hq, S], or [Y, Hq] if no setting changes it. NaN: not defined or not
/// computed. A value is a statistic over the queries of one sample, or over all samples and queries.
struct MapArray {
  enum class Statistic : std::uint8_t { mean, worst };
  static constexpr int kAllSamples = -1;
  static constexpr int kExactScores = -1;

  int model = 0;
  int sample = kAllSamples;     ///< index in MapModel::samples
  int selector = kExactScores;  ///< index in MapModel::selectors; kExactScores: of the exact scores alone
  int metric = 0;               ///< index in ReportData::metrics
  Statistic statistic = Statistic::mean;
  int rank = 0;  ///< where a page would become too large, arrays of higher rank are left out; 0: never
  std::vector<double> values = {};  ///< not float: a mean near 1 would lose the digits that are missing to 1
};

/// A metric by which the worst cells of each selector are listed; it is also a column of the list.
struct CellMetric {
  const char* name;
  const char* title;  ///< of its column
  const char* worst;  ///< "worst by ..."
  bool is_share;      ///< the lowest is the worst, else the highest
};
inline constexpr std::array kCellMetrics = {CellMetric{"recall", "recall", "recall", true},
                                            CellMetric{"lse_error", "LSE error", "LSE error", false},
                                            CellMetric{"mass_recall", "mass kept", "mass that was dropped", true}};
inline constexpr std::size_t kRecallOfCell = 0;  ///< which of them is recall

/// One of the cells (layer, query, head) that a selector reproduces worst.
struct WorstCell {
  int model = 0, selector = 0, setting = 0;  ///< indices; `setting` in MapSelector::settings
  int sample = 0;                            ///< index in MapModel::samples
  int layer = 0, head = 0;                   ///< numbers
  std::int64_t query_position = 0;
  std::array<float, kCellMetrics.size()> metrics = {};  ///< NaN: not defined
  int enough = -1;               ///< the setting that keeps least among those with enough recall; -1: none
  std::vector<int> tokens = {};  ///< ids around the query; empty: not known
  int tokens_before = 0;         ///< how many of them stand before the query's own
};

struct ReportData {
  std::string title = {};
  std::string studied = {};  ///< what was studied, a sentence or two
  std::vector<NamedText> facts = {};
  std::vector<PageFinding> findings = {};
  std::size_t verdicts = 0;                ///< so many of them, the first, are verdicts
  std::vector<PageSection> overview = {};  ///< before the map
  std::vector<MapMetric> metrics = {};
  std::vector<MapModel> models = {};
  std::vector<MapArray> arrays = {};
  std::vector<WorstCell> cells = {};
  double enough_recall = 0.999;           ///< what WorstCell::enough means
  std::string cells_note = {};            ///< which cells are listed, and why there are no tokens
  std::vector<PageSection> figures = {};  ///< after the cells
  std::string figures_note = {};          ///< why there are no pictures; what could not be made
  std::vector<NamedText> manifests = {};  ///< name of the results file, its manifest as JSON text
};

}  // namespace attest
