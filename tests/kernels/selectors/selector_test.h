// Compares a selector with its plain form: every case, every query, random grids, setting by setting.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/selectors/registry.h"
#include "tests/cases.h"
#include "tests/kernels/plain.h"
#include "tests/near.h"

namespace attest::test {

/// The results of a selector's formulas for one query and the G heads of its group.
struct Plain {
  std::vector<Row> estimate;                                     ///< [G][covered]; no rows: no estimate
  std::vector<Row> read_scores;                                  ///< [G][L] s'; no rows: the exact scores
  std::vector<Row> read_values;                                  ///< [tokens][Dv] v' of tokens 0, 1, ..
  std::vector<Row> stored_values;                                ///< [L][Dv] v' of later ones; no rows: they are exact
  std::function<std::vector<Kept>(double setting)> keep;         ///< [G][L]; per cent settings are resolved to tokens
  std::function<double(const std::vector<Kept>& kept)> bytes;    ///< bytes read per KV head
  std::function<Row(const std::vector<Kept>& kept)> mean_share;  ///< [G] a of o = a y + (1 - a) mean(v); empty: a = 1
  std::map<std::string, Row> row_metrics;  ///< [G] metrics of the selector without a settings axis
  std::map<std::string, std::function<Row(const std::vector<Kept>& kept)>> setting_metrics;  ///< [G] per setting
};
using PlainForm = std::function<Plain(const Query&)>;

/// Options in user syntax: "bits=4,gqa=per_head".
struct Options {
  std::map<std::string, std::string> given;
  explicit Options(const std::string& text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
      given[text.substr(begin, equals - begin)] = text.substr(equals + 1, end - equals - 1);
      begin = end + 1;
    }
  }
  std::string text(const std::string& name, const std::string& fallback) const {
    const auto found = given.find(name);
    return found == given.end() ? fallback : found->second;
  }
  std::int64_t number(const std::string& name, std::int64_t fallback) const {
    return std::stoll(text(name, std::to_string(fallback)));
  }
  bool is(const std::string& name, const std::string& value) const { return text(name, "") == value; }
};

inline std::unique_ptr<Selector> selector(const std::string& name, const std::string& options = "") {
  SelectorSpec spec{.label = "", .name = name, .options = {}};
  for (const auto& [option, value] : Options(options).given) spec.options.emplace_back(option, value);
  return make_selector(spec);
}

/// An unsorted grid with a repeated setting and the ends of the range.
inline std::vector<Setting> random_grid(SettingKind kind, std::int64_t longest, Random& random) {
  std::vector<Setting> grid;
  for (int i = 0; i < 5; ++i) switch (kind) {
      case SettingKind::none:
        return {Setting{}};
      case SettingKind::delta:
        grid.push_back({4 * random.uniform() * random.uniform()});
        break;
      case SettingKind::budget:
        grid.push_back(i % 2 == 0 ? Setting{static_cast<double>(1 + random.below(longest))}
                                  : Setting{random.uniform(0.5, 100), true});
        break;
      case SettingKind::p:
        grid.push_back({random.uniform(0.3, 1)});
        break;
      case SettingKind::factor:
        grid.push_back({std::pow(10, random.uniform(0, 4))});
        break;
    }
  grid.push_back(grid[1]);
  if (kind == SettingKind::delta) grid.insert(grid.begin() + 1, {{std::numeric_limits<double>::infinity()}, {0}});
  if (kind == SettingKind::budget) grid.insert(grid.begin() + 1, {{100, true}, {1e9}, {1}});
  if (kind == SettingKind::p) grid.insert(grid.begin() + 1, {{1}, {1e-9}});
  if (kind == SettingKind::factor) grid.insert(grid.begin() + 1, {{1e9}, {1e-3}});
  return grid;
}

/// Two orders of summation of at most 576 terms of at most 1e5 each, in double.
inline constexpr double kOrders = 1e-9;
inline void expect_near(double expected, double found, const std::string& what) {
  EXPECT_TRUE(relatively_near(found, expected, kOrders)) << what;
}

inline RankedScores exact_scores(const KvHead& head) {
  RankedScores exact;
  exact.scores.resize(head.rows(), head.length);
  for (int r = 0; r < head.rows(); ++r) {
    const Row row = Query{&head, r / head.group}.exact_row(r % head.group);
    std::copy(row.begin(), row.end(), exact.scores.row(r));
  }
  exact.rank(head.visible, head.group);
  return exact;
}

/// Number of compared settings, and of those that keep some tokens and drop others. A test of a rule needs many of the
/// latter.
struct Compared {
  int all = 0, partial = 0;
};

inline void compare_setting(const Query& query, const Plain& plain, const Selection& found, double setting,
                            int ascending, const std::string& where, Compared& compared) {
  const std::vector<Kept> kept = plain.keep(setting);
  const int first = query.n * query.group();
  double kept_by_any = 0;
  for (std::int64_t j = 0; j < query.length(); ++j) {
    bool any = false;
    for (int h = 0; h < query.group(); ++h) any |= found.levels.row(first + h)[j] <= ascending;
    kept_by_any += any;
  }
  const Row share = plain.mean_share ? plain.mean_share(kept) : Row{};
  for (int h = 0; h < query.group(); ++h) {
    const Kept& expected = kept[static_cast<std::size_t>(h)];
    std::int64_t wrong = 0, first_wrong = -1;
    for (std::int64_t j = query.length(); j-- > 0;)
      if ((found.levels.row(first + h)[j] <= ascending) != (expected[static_cast<std::size_t>(j)] != 0))
        ++wrong, first_wrong = j;
    ASSERT_EQ(wrong, 0) << where << ", head " << h << ": token " << first_wrong << " of " << query.length() << " is "
                        << (expected[static_cast<std::size_t>(std::max<std::int64_t>(0, first_wrong))] ? "not kept"
                                                                                                       : "kept");
    const double number = count(expected);
    ++compared.all;
    compared.partial += number > 0 && number < static_cast<double>(query.length());
    if (!share.empty())
      expect_near(share[static_cast<std::size_t>(h)], found.mean_value_share.row(first + h)[ascending],
                  where + ", mean value share");
  }
  const IoCost& io = found.io[static_cast<std::size_t>(query.n)];
  expect_near(plain.bytes(kept), io.fixed + io.per_kept_token * (kept_by_any - io.free_tokens), where + ", bytes");
}

inline void compare_query(const Selector& product, const Query& query, const PlainForm& form, const AscendingGrid& grid,
                          const Selection& found, const std::string& where, Compared& compared) {
  const Plain plain = form(query);
  ASSERT_EQ(plain.estimate.empty(), found.estimate == nullptr) << where;
  ASSERT_EQ(plain.estimate.empty(), !product.has_estimate()) << where;
  for (int h = 0; h < query.group(); ++h) {
    const int row = query.n * query.group() + h;
    const auto head = static_cast<std::size_t>(h);
    if (!plain.estimate.empty()) {
      ASSERT_EQ(static_cast<std::int64_t>(plain.estimate[head].size()),
                found.covered[static_cast<std::size_t>(query.n)])
          << where;
      for (std::size_t j = 0; j < plain.estimate[head].size(); ++j)
        expect_near(plain.estimate[head][j], found.estimate->scores.row(row)[j],
                    where + ", estimate of token " + std::to_string(j));
    }
    ASSERT_EQ(plain.read_scores.empty(), found.read_scores == nullptr) << where;
    for (std::size_t j = 0; !plain.read_scores.empty() && j < plain.read_scores[head].size(); ++j)
      expect_near(plain.read_scores[head][j], found.read_scores->row(row)[j],
                  where + ", score read for token " + std::to_string(j));
    if (::testing::Test::HasFailure()) return;
  }
  ASSERT_EQ(static_cast<std::int64_t>(plain.read_values.size()),
            found.num_approximate[static_cast<std::size_t>(query.n)])
      << where;
  ASSERT_EQ(plain.stored_values.empty(), !found.stored_values) << where;
  if (found.stored_values) {  // decoded in double
    const auto dim = static_cast<std::size_t>(query.value_dim());
    std::vector<double> values(plain.stored_values.size() * dim);
    found.stored_values(0, query.length(), values.data(), query.value_dim());
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_near(plain.stored_values[i / dim][i % dim], values[i],
                  where + ", value " + std::to_string(i / dim) + " channel " + std::to_string(i % dim));
  }
  for (std::size_t j = 0; j < plain.read_values.size(); ++j)
    for (std::size_t d = 0; d < plain.read_values[j].size(); ++d)  // float32: bit-identical
      ASSERT_EQ(plain.read_values[j][d],
                static_cast<double>(found.approximate_values[j * static_cast<std::size_t>(query.value_dim()) + d]))
          << where << ", value " << j << " channel " << d;
  const std::span<const MetricInfo> own = product.own_metrics();
  ASSERT_EQ(own.size(), plain.row_metrics.size() + plain.setting_metrics.size()) << where;
  const auto compare_own = [&](std::size_t m, const Row& expected, std::size_t column) {
    for (int h = 0; h < query.group(); ++h) {
      const double value = found.own_metrics[m].row(query.n * query.group() + h)[column];
      EXPECT_TRUE(near_metric(value, expected[static_cast<std::size_t>(h)], kOrders)) << where << ", " << own[m].name;
    }
  };
  for (std::size_t m = 0; m < own.size(); ++m)
    if (own[m].axes == MetricAxes::query_head) compare_own(m, plain.row_metrics.at(std::string(own[m].name)), 0);
  for (std::size_t i = 0; i < grid.values.size(); ++i) {
    compare_setting(query, plain, found, grid.values[i], static_cast<int>(i),
                    where + ", setting " + std::to_string(grid.values[i]), compared);
    if (::testing::Test::HasFatalFailure()) return;
    for (std::size_t m = 0; m < own.size(); ++m)
      if (own[m].axes == MetricAxes::query_head_setting)
        compare_own(m, plain.setting_metrics.at(std::string(own[m].name))(plain.keep(grid.values[i])), i);
  }
}

/// False if blocks have the same scores in different order: their masses are equal, but the computed sums differ by
/// rounding.
inline bool sums_are_distinct(const Case& c) { return c.pattern != Pattern::ties; }

inline bool any_case(const Case&) { return true; }

using MakeSelector = std::function<std::unique_ptr<Selector>(const Case&)>;

/// Compares on every case for which suits(case) holds. `title` names the selector in messages.
inline Compared expect_conforms(const std::string& title, const MakeSelector& make, const PlainForm& form,
                                const std::function<bool(const Case&)>& suits = any_case) {
  Compared compared;
  Random random(std::hash<std::string>{}(title));
  Selection found;  // reused from head to head, as in a study
  for (const Case& c : cases()) {
    if (!suits(c)) continue;
    const std::unique_ptr<Selector> product = make(c);
    product->check({c.head_dim, c.value_dim});
    for (const HeadData& data : heads_of(make_layer(c))) {
      const RankedScores exact = exact_scores(data.head);
      std::vector<Setting> all = random_grid(product->setting_kind(), data.head.length, random);
      std::vector<std::vector<Setting>> passes{all};
      if (!product->monotone()) {
        passes.clear();
        for (const Setting& setting : all) passes.push_back({setting});
      }
      for (const std::vector<Setting>& pass : passes) {
        std::vector<AscendingGrid> grids;
        for (std::int64_t visible : data.visible) grids.push_back(ascending(*product, pass, visible));
        found.reset(data.head, product->own_metrics(), static_cast<int>(pass.size()));
        product->select(data.head, exact, grids, found);
        for (int n = 0; n < data.head.num_queries; ++n) {
          compare_query(*product, {&data.head, n}, form, grids[static_cast<std::size_t>(n)], found,
                        title + " on " + c.name + ", query " + std::to_string(n), compared);
          if (::testing::Test::HasFailure()) return compared;
        }
      }
    }
  }
  return compared;
}

inline Compared expect_conforms(const std::string& name, const std::string& options, const PlainForm& form,
                                const std::function<bool(const Case&)>& suits = any_case) {
  return expect_conforms(
      name + ":" + options, [&](const Case&) { return selector(name, options); }, form, suits);
}

/// Bytes of the keys and values of `tokens` tokens in 16 bit.
inline double dense_bytes(const Query& query, double tokens) { return tokens * 2 * (query.dim() + query.value_dim()); }

inline double kept_by_group(const std::vector<Kept>& kept) {
  Kept any = kept[0];
  for (const Kept& head : kept) any = either(any, head);
  return count(any);
}

inline std::vector<Kept> united(const std::vector<Kept>& kept) {
  Kept any = kept[0];
  for (const Kept& head : kept) any = either(any, head);
  return std::vector<Kept>(kept.size(), any);
}

}  // namespace attest::test
