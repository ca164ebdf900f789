// The CPU study of a layer: every metric of an artificial selector against its plain implementation, cell by cell.
#include <gtest/gtest.h>

#include <set>

#include "tests/analysis/plain_metrics.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

/// A number in [0, 1) that depends on all of its arguments.
double noise(std::int64_t a, std::int64_t b, std::int64_t c) {
  Random random(static_cast<std::uint64_t>(a * 1000003 + b * 7919 + c));
  return random.uniform();
}

/// A selector with pseudo-random output that uses every feature: an estimate of a part of the tokens, approximate
/// scores and values, a mean-value share, own metrics. The expected results follow from the metrics' definitions.
class MadeUp final : public Selector {
 public:
  static constexpr int kSettings = 4;
  SettingKind setting_kind() const override { return SettingKind::delta; }
  bool has_estimate() const override { return true; }
  std::span<const MetricInfo> own_metrics() const override {
    static constexpr MetricInfo kOwn[] = {
        {"own_row_metric", MetricAxes::query_head, "tokens", Better::neither, "L plus the head"},
        {"own_setting_metric", MetricAxes::query_head_setting, "nats", Better::neither, "setting plus the head"}};
    return kOwn;
  }
  double natural_delta(double setting, const ScoreTransform&) const override { return setting / 2; }

  static std::int64_t covered(std::int64_t visible) { return visible - visible / 3; }
  static int level(std::int64_t length, int h, std::int64_t j) {
    return static_cast<int>(noise(length, h, j / 5) * (kSettings + 1));
  }
  static double estimate(double s, int h, std::int64_t j) { return s + 2 * noise(1, h, j) - 1.2; }
  static double read(double s, int h, std::int64_t j) { return s + 0.2 * noise(2, h, j); }
  static float value(float v, std::int64_t j, int d) { return v + static_cast<float>(0.1 * noise(3, j, d)); }
  static double share(int h, int setting) { return 0.8 + 0.01 * h + 0.02 * setting; }
  static IoCost io(std::int64_t length) {
    return {.fixed = 100.0 * static_cast<double>(length), .per_kept_token = 30, .free_tokens = 1};
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    out.estimate = &out.own_estimate;
    out.read_scores = &out.own_read_scores;
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.own_read_scores.resize(head.rows(), head.length);
    out.mean_value_share.resize(head.rows(), kSettings);
    for (std::int64_t j = 0; j < head.length; ++j)
      for (int d = 0; d < head.value_dim; ++d)
        out.approximate_values.push_back(value(head.values[j * head.value_dim + d], j, d));
    for (int r = 0; r < head.rows(); ++r) {
      const auto n = static_cast<std::size_t>(r / head.group);
      const int h = r % head.group;
      const std::int64_t length = head.row_length(r);
      out.covered[n] = covered(length);
      out.num_approximate[n] = length / 2;
      out.io[n] = io(length);
      for (std::int64_t j = 0; j < length; ++j) {
        out.levels.row(r)[j] = static_cast<Level>(level(length, h, j));
        out.own_estimate.scores.row(r)[j] = estimate(exact.scores.row(r)[j], h, j);
        out.own_read_scores.row(r)[j] = read(exact.scores.row(r)[j], h, j);
      }
      out.own_metrics[0].row(r)[0] = static_cast<double>(length + h);
      for (int i = 0; i < kSettings; ++i) {
        out.mean_value_share.row(r)[i] = share(h, i);
        out.own_metrics[1].row(r)[i] = grids[n].values[static_cast<std::size_t>(i)] + h;
      }
    }
  }
};

const std::vector<Setting> kGrid{{6}, {1}, {9}, {3}};  // in the order given
const std::vector<double> kAscending{1, 3, 6, 9};
constexpr std::size_t kGiven[] = {1, 3, 0, 2};  // index in kGrid of the i-th ascending setting
const std::vector<double> kLambdas{0.3, 1};
constexpr double kSalientDelta = 2;

Study made_up_study() {
  Study study = study_of({study_selector("made_up", std::make_shared<MadeUp>(), kGrid)});
  study.salient_delta = kSalientDelta;
  study.lambdas = kLambdas;
  return study;
}

// Rounding to float32 and the different order of the sums.
constexpr double kRounded = 2e-7;
void expect_cell(double expected, float found, const std::string& what) {
  EXPECT_TRUE(near_metric(found, expected, kRounded)) << what;
}

/// Outputs and kept sets of one row, from which the expected metrics of the layer are computed.
struct ExpectedRow {
  std::vector<Kept> kept;    // [S] ascending
  std::vector<Row> outputs;  // [S] ascending
  Row exact_output;
};

class StudyOfMadeUp {
 public:
  StudyOfMadeUp(const Case& c, const AttentionLayer& layer, const LayerResults& results)
      : case_(c), layer_(layer), results_(results) {}

  void check() {
    std::vector<std::vector<ExpectedRow>> rows(static_cast<std::size_t>(layer_.num_queries()));
    for (const HeadData& data : heads_of(layer_))
      for (int n = 0; n < data.head.num_queries; ++n)
        for (int h = 0; h < data.head.group; ++h)
          rows[static_cast<std::size_t>(data.first_query + n)].push_back(check_row(data, {&data.head, n}, h));
    for (std::size_t n = 0; n < rows.size(); ++n)
      for (std::size_t i = 0; i < kAscending.size(); ++i) {
        Row all, exact;
        for (const ExpectedRow& row : rows[n]) {
          all.insert(all.end(), row.outputs[i].begin(), row.outputs[i].end());
          exact.insert(exact.end(), row.exact_output.begin(), row.exact_output.end());
        }
        expect_cell(plain_cosine(all, exact),
                    metric(results_.selectors[0].metrics, "recall_layer").values[n * 4 + kGiven[i]],
                    case_.name + " recall_layer");
        if (!layer_.spans.empty()) check_span_tokens(n, i, rows[n]);
      }
  }

 private:
  /// Token by token: how many heads keep it, and the share that none keeps.
  void check_span_tokens(std::size_t n, std::size_t i, const std::vector<ExpectedRow>& heads) {
    std::set<std::int64_t> tokens;
    for (const TokenSpan& span : layer_.spans)
      for (std::int64_t t = span.begin; t < span.end; ++t) tokens.insert(t);
    const std::vector<float>& counts = metric(results_.selectors[0].metrics, "span_token_heads").values;
    ASSERT_EQ(counts.size(), static_cast<std::size_t>(layer_.num_queries()) * 4 * tokens.size()) << case_.name;
    const std::int64_t position = layer_.query_positions[n], first = layer_.first_visible_key(position);
    double seen = 0, lost = 0;
    std::size_t cell = (n * 4 + kGiven[i]) * tokens.size();
    for (const std::int64_t t : tokens) {
      const bool sees = first <= t && t <= position;
      double count = 0;
      for (const ExpectedRow& head : heads) count += sees ? head.kept[i][static_cast<std::size_t>(t - first)] : 0;
      expect_cell(sees ? count : kNaN, counts[cell++], case_.name + " span_token_heads of " + std::to_string(t));
      seen += sees;
      lost += sees && count == 0;
    }
    expect_cell(seen > 0 ? lost / seen : kNaN,
                metric(results_.selectors[0].metrics, "span_lost").values[n * 4 + kGiven[i]],
                case_.name + " span_lost");
  }

  ExpectedRow check_row(const HeadData& data, const Query& query, int h) {
    const Row s = query.exact_row(h);
    const std::int64_t length = query.length();
    const std::size_t cell = static_cast<std::size_t>((data.first_query + query.n) * layer_.shape.num_query_heads +
                                                      data.kv_head * query.group() + h);
    const std::string where = case_.name + ", row " + std::to_string(cell) + ": ";
    const std::int64_t first =
        layer_.query_positions[static_cast<std::size_t>(data.first_query + query.n)] + 1 - length;
    Kept spans;
    if (!layer_.spans.empty())
      for (std::int64_t j = 0; j < length; ++j)
        spans.push_back(std::any_of(layer_.spans.begin(), layer_.spans.end(), [&](const TokenSpan& span) {
          return span.begin <= first + j && first + j < span.end;
        }));
    const double sink =
        layer_.sinks.empty()
            ? kNoSink
            : static_cast<double>(layer_.sinks[cell % static_cast<std::size_t>(layer_.shape.num_query_heads)]);
    for (const auto& [name, value] : plain_score_metrics(s, spans, sink))
      expect_cell(value, metric(results_.scores, name).values[cell], where + name);

    std::vector<Row> values, read_values;
    for (std::int64_t j = 0; j < length; ++j) {
      values.emplace_back();
      read_values.emplace_back();
      for (int d = 0; d < query.value_dim(); ++d) {
        values.back().push_back(query.v(j, d));
        const auto v = static_cast<float>(query.v(j, d));
        read_values.back().push_back(static_cast<double>(j < length / 2 ? MadeUp::value(v, j, d) : v));
      }
    }
    ExpectedRow row;
    double exact_lse = 0;
    row.exact_output = plain_output(s, values, Kept(s.size(), 1), exact_lse, sink);
    Row estimate, read, mean(static_cast<std::size_t>(query.value_dim()), 0.0);
    for (std::int64_t j = 0; j < length; ++j) {
      if (j < MadeUp::covered(length)) estimate.push_back(MadeUp::estimate(s[static_cast<std::size_t>(j)], h, j));
      read.push_back(MadeUp::read(s[static_cast<std::size_t>(j)], h, j));
      for (std::size_t d = 0; d < mean.size(); ++d)
        mean[d] += values[static_cast<std::size_t>(j)][d] / static_cast<double>(length);
    }
    const std::vector<MetricValues>& found = results_.selectors[0].metrics;
    for (const auto& [name, value] : plain_estimate_metrics(estimate, s))
      expect_cell(value, metric(found, name).values[cell], where + name);
    for (std::size_t l = 0; l < kLambdas.size(); ++l) {
      const auto [both, lower] = plain_tails(estimate, s, kLambdas[l]);
      expect_cell(both, metric(found, "scan_error_tail").values[cell * 2 + l], where + "scan_error_tail");
      expect_cell(lower, metric(found, "scan_error_lower_tail").values[cell * 2 + l], where + "scan_error_lower_tail");
    }
    expect_cell(static_cast<double>(length + h), metric(found, "own_row_metric").values[cell],
                where + "own_row_metric");
    for (int i = 0; i < MadeUp::kSettings; ++i) {
      Kept kept;
      double by_group = 0;
      for (std::int64_t j = 0; j < length; ++j) {
        kept.push_back(MadeUp::level(length, h, j) <= i);
        bool any = false;
        for (int other = 0; other < query.group(); ++other) any |= MadeUp::level(length, other, j) <= i;
        by_group += any;
      }
      double lse = 0;
      Row o = plain_output(read, read_values, kept, lse, sink);
      for (std::size_t d = 0; d < o.size(); ++d)
        o[d] = MadeUp::share(h, i) * o[d] + (1 - MadeUp::share(h, i)) * mean[d];
      const double setting = kAscending[static_cast<std::size_t>(i)];
      Metrics expected = plain_kept_metrics(s, kept, setting / 2, kSalientDelta, spans);
      expected.merge(plain_output_metrics(o, lse, row.exact_output, exact_lse));
      const IoCost io = MadeUp::io(length);
      expected["io_ratio"] =
          (io.fixed + 30 * (by_group - 1)) / (2.0 * (query.dim() + query.value_dim()) * static_cast<double>(length));
      expected["own_setting_metric"] = setting + h;
      for (const auto& [name, value] : expected)
        expect_cell(value, metric(found, name).values[cell * 4 + kGiven[i]],
                    where + name + " of setting " + std::to_string(setting));
      row.outputs.push_back(o);
      row.kept.push_back(kept);
    }
    return row;
  }

  const Case& case_;
  const AttentionLayer& layer_;
  const LayerResults& results_;
};

TEST(CpuLayerStudy, EveryMetricAgreesWithItsDefinition) {
  for (const Case& c : cases())
    for (bool spans : {false, true}) {
      AttentionLayer layer = make_layer(c);
      const std::int64_t last = layer.num_tokens;
      if (spans)
        // Two spans overlap, and some are beyond the first query.
        layer.spans = {{last / 3, last / 3 + 20}, {last / 3 + 10, last / 2 + 11}, {0, 1}};
      const Study study = made_up_study();
      const LayerResults results = make_cpu_layer_study(study, 2)->run(layer);
      EXPECT_EQ(results.layer, 5);
      StudyOfMadeUp(c, layer, results).check();
      if (HasFailure()) return;
    }
}

TEST(CpuLayerStudy, SinkMassIsThereOnlyWithLearnedSinks) {
  for (const Case& c : cases()) {
    const Study study = made_up_study();
    const std::vector<MetricValues> scores = make_cpu_layer_study(study, 1)->run(make_layer(c)).scores;
    EXPECT_EQ(std::ranges::count(scores, "sink_mass", &MetricValues::name), c.sinks ? 1 : 0) << c.name;
  }
}

// If nothing is kept, o^ is the zero vector and LSE^ is minus infinity; every metric has its defined value or NaN.
TEST(CpuLayerStudy, AnEmptyKeptSet) {
  class Nothing final : public Selector {
   public:
    SettingKind setting_kind() const override { return SettingKind::none; }
    bool has_estimate() const override { return false; }
    void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid>,
                Selection& out) const override {
      for (int r = 0; r < head.rows(); ++r) std::fill_n(out.levels.row(r), head.row_length(r), Level{1});
    }
  };
  const LayerResults results =
      run_layer({study_selector("nothing", std::make_shared<Nothing>(), {})}, make_layer(cases()[0]));
  const std::vector<MetricValues>& found = results.selectors[0].metrics;
  EXPECT_TRUE(std::isnan(metric(found, "recall").values[0]));
  EXPECT_EQ(metric(found, "output_error").values[0], 1);
  EXPECT_EQ(metric(found, "lse_error").values[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(metric(found, "mass_recall").values[0], 0);
  EXPECT_EQ(metric(found, "dropped_gap").values[0], 0);
}

TEST(CpuLayerStudy, EndsWithinALayerWhenToldTo) {
  const AttentionLayer layer = make_layer(cases()[0]);
  const Study study = study_of({study_selector("exact", {})});
  const std::unique_ptr<LayerStudy> layers = make_cpu_layer_study(study, 2);
  std::atomic<bool> stop{true};
  layers->end_when(&stop);
  EXPECT_THROW(layers->run(layer), Interrupted);
  stop = false;
  const LayerResults expected = make_cpu_layer_study(study, 2)->run(layer);
  expect_same_values(layers->run(layer), expected, "after an interruption");
}

/// A selector that interrupts the study while it selects, like a signal.
class Interrupting final : public Selector {
 public:
  explicit Interrupting(std::atomic<bool>& stop) : stop_(stop) {}
  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return false; }
  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid>, Selection&) const override {
    stop_ = true;
    head.throw_if_stopped();
    FAIL() << "goes on";
  }

 private:
  std::atomic<bool>& stop_;
};

TEST(CpuLayerStudy, EndsWithinASelectorWhenToldTo) {
  std::atomic<bool> stop{false};
  const Study study = study_of({study_selector("interrupting", std::make_shared<Interrupting>(stop), {})});
  const std::unique_ptr<LayerStudy> layers = make_cpu_layer_study(study, 2);
  layers->end_when(&stop);
  EXPECT_THROW(layers->run(make_layer(cases()[0])), Interrupted);
}

}  // namespace
}  // namespace attest::test
