// A selector over a quantised cache: what its rule reads of the original keys and what of the stored ones, its outputs
// by the formulas, bytes, options and refusals. In fp8 with scale 1 stored numbers are exact, so that a layer of stored
// numbers is a layer like others.
#include "kernels/selectors/cached_selector.h"

#include "dumps/base/error.h"
#include "kernels/selectors/selection_outputs.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/kernels/kv_formats/safetensors.h"
#include "tests/kernels/selectors/selector_test.h"
#include "tests/message_of.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kSums = 1e-9;  // two orders of summation in double

std::unique_ptr<Selector> selector_of(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  return selector(text.substr(0, colon), colon < text.size() ? text.substr(colon + 1) : "");
}

std::string with_option(const std::string& text, const std::string& option) {
  return text + (text.find(':') == std::string::npos ? ":" : ",") + option;
}

/// The layer with every key and value rounded to e4m3.
AttentionLayer stored_layer(const Case& c) {
  AttentionLayer layer = make_layer(c);
  for (LayerBuffer* buffer : {&layer.k, &layer.v}) {
    std::vector<float> values(buffer->size() / size_of(c.type));
    convert_to_float(c.type, buffer->data(), values.size(), values.data());
    for (float& x : values) x = static_cast<float>(to_e4m3(x));
    convert_from_float(c.type, values.data(), values.size(), buffer->data());
  }
  return layer;
}

struct Selected {
  std::unique_ptr<Selector> selector;
  Selection selection;
  RankedScores exact;
  std::vector<AscendingGrid> grids;
};

void select(Selected& into, const std::string& text, const Case& c, const KvHead& head) {
  into.selector = selector_of(text);
  if (!into.selector->calibration_samples().empty()) into.selector->calibrate(make_layer(c, kCalibrationSeed));
  into.selector->check(head.shape());
  Random random(3);
  const std::vector<Setting> grid = random_grid(into.selector->setting_kind(), head.length, random);
  for (std::int64_t visible : head.visible) into.grids.push_back(ascending(*into.selector, grid, visible));
  into.exact = exact_scores(head);
  into.selection.reset(head, into.selector->own_metrics(), static_cast<int>(grid.size()));
  into.selector->select(head, into.exact, into.grids, into.selection);
}

/// Softmax over the kept tokens of scores and values of a head of stored numbers.
Row plain_output(const Query& query, int h, const Level* levels, int setting) {
  const Row scores = query.exact_row(h);
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (levels[j] <= setting) maximum = std::max(maximum, scores[j]);
  Row out(static_cast<std::size_t>(query.value_dim()), 0.0);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (levels[j] > setting) continue;
    const double weight = std::exp(scores[j] - maximum);
    sum += weight;
    for (int d = 0; d < query.value_dim(); ++d)
      out[static_cast<std::size_t>(d)] += weight * query.v(static_cast<std::int64_t>(j), d);
  }
  if (query.head->sinks.size() > 0 && sum > 0)
    sum += std::exp(static_cast<double>(query.head->sinks[static_cast<std::size_t>(h)]) - maximum);
  for (double& x : out) x = sum > 0 ? x / sum : 0;
  return out;
}

/// Whether the rule looks at the original keys, or at the stored ones.
enum class Rule { original, stored };

int expect_outputs(const std::string& text, const Case& c, Rule rule) {
  const std::vector<HeadData> original = heads_of(make_layer(c)), stored = heads_of(stored_layer(c));
  int different = 0;
  for (std::size_t i = 0; i < original.size(); ++i) {
    const KvHead &head = original[i].head, &other = stored[i].head;
    Selected cached, plain;
    select(cached, with_option(text, "cache=fp8_e4m3"), c, head);
    select(plain, text, c, rule == Rule::original ? head : other);
    std::vector<SettingOutputs> outputs;
    const int settings = static_cast<int>(cached.grids[0].values.size());
    selection_outputs(head, cached.exact.scores, cached.selection, settings, outputs);
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t visible = head.row_length(r);
      const Level *levels = cached.selection.levels.row(r), *expected = plain.selection.levels.row(r);
      EXPECT_TRUE(std::equal(levels, levels + visible, expected)) << text << " on " << c.name << ", row " << r;
      for (int s = 0; s < settings; ++s) {
        const Query query{&other, r / head.group};
        const Row output = plain_output(query, r % head.group, levels, s);
        const std::span<const double> found = outputs[static_cast<std::size_t>(r)].output_of(s);
        for (std::size_t d = 0; d < output.size(); ++d)
          EXPECT_TRUE(relatively_near(found[d], output[d], kSums)) << text << " on " << c.name;
      }
      for (std::int64_t j = 0; j < visible; ++j)
        different += (*cached.selection.read_scores).row(r)[j] != cached.exact.scores.row(r)[j];
      if (::testing::Test::HasFailure()) return different;
    }
  }
  return different;
}

TEST(CachedSelector, ReadsStoredKeysAndValues) {
  const std::pair<const char*, Rule> selectors[] = {{"quest:dense_layers=0", Rule::original},
                                                    {"quest:dense_layers=0,gqa=shared", Rule::original},
                                                    {"twilight:dense_layers=0,base_budget=100", Rule::original},
                                                    {"sparq:mean_value=off", Rule::original},
                                                    {"double_sparsity:dense_layers=0,calibrate=other", Rule::original},
                                                    {"imported:file=own.h5,dataset=tokens", Rule::original},
                                                    {"ffd:residual=exact,block=32", Rule::original},
                                                    {"streaming_llm", Rule::stored},
                                                    {"topk", Rule::stored},
                                                    {"topk:gqa=union,granularity=block,block=32", Rule::stored},
                                                    {"topp", Rule::stored},
                                                    {"topdelta", Rule::stored},
                                                    {"skip_softmax:tile=32", Rule::stored},
                                                    {"ffd:scan=exact,block=64", Rule::stored},
                                                    {"ffd:scan=exact,block=32,rule=topk", Rule::stored}};
  for (const auto& [text, rule] : selectors)
    for (const char* name : {"llama", "group_of_7", "short", "capped", "window", "sinks", "outliers"}) {
      const auto c = std::ranges::find(cases(), std::string(name), &Case::name);
      ASSERT_NE(c, cases().end());
      EXPECT_GT(expect_outputs(text, *c, rule), 0) << text << " on " << name;
      if (HasFailure()) return;
    }
}

/// What a method keeps beside the cache stays as it was: FFD's residuals, KIVI's groups.
TEST(CachedSelector, LeavesWhatIsBesideTheCache) {
  const Case& c = cases()[0];
  const std::vector<HeadData> original = heads_of(make_layer(c)), stored = heads_of(stored_layer(c));
  for (const char* text : {"ffd", "kivi"}) {
    Selected cached, plain;
    select(cached, with_option(text, "cache=fp8_e4m3"), c, original[0].head);
    select(plain, text, c, original[0].head);
    const KvHead& head = original[0].head;
    int exact_reads = 0;
    for (int r = 0; r < head.rows(); ++r) {
      const Query query{&stored[0].head, r / head.group};
      for (std::int64_t j = 0; j < head.row_length(r); ++j) {
        const double before = plain.selection.read_scores->row(r)[j], now = cached.selection.read_scores->row(r)[j];
        const bool read_exactly = before == plain.exact.scores.row(r)[j];
        exact_reads += read_exactly;
        ASSERT_NEAR(now, read_exactly ? query.exact(r % head.group, j) : before, kSums) << text << ", token " << j;
      }
    }
    EXPECT_GT(exact_reads, 100) << text;
    EXPECT_EQ(cached.selection.num_approximate, plain.selection.num_approximate) << text;
    EXPECT_EQ(cached.selection.approximate_values, plain.selection.approximate_values) << text;
    Row values(static_cast<std::size_t>(head.value_dim));
    cached.selection.stored_values(head.length - 1, 1, values.data(), head.value_dim);
    for (int d = 0; d < head.value_dim; ++d)
      ASSERT_EQ(values[static_cast<std::size_t>(d)], (Query{&stored[0].head, 0}.v(head.length - 1, d))) << text;
  }
}

/// io + kept tokens of the last query of case "llama" (502 tokens, 2 x 128 channels) at 100 kept tokens.
double bytes_at(const std::string& text, const KvShape& kv, double kept) {
  const Case c{"bytes", 1, 1, kv.head_dim, kv.value_dim, ElementType::bfloat16, {501}};
  std::vector<HeadData> heads = heads_of(make_layer(c));
  heads[0].head.values_in_keys = kv.values_in_keys;
  Selected selected;
  select(selected, text, c, heads[0].head);
  const IoCost& io = selected.selection.io[0];
  return io.fixed + io.per_kept_token * (kept - io.free_tokens);
}

TEST(CachedSelector, BytesAreThoseOfTheFormatWhereSixteenBitsStood) {
  constexpr double kLength = 502, kKept = 200;
  const auto expect = [&](const std::string& text, double bytes, const KvShape& shape = {128, 64}) {
    EXPECT_EQ(bytes_at(text, shape, kKept), bytes) << text;
  };
  expect("topk:cache=fp8_e4m3", kKept * (128 + 64));
  expect("topk:cache=native+q8_0", kKept * (256 + 68));
  expect("topk:cache=q4_0+native", kKept * (72 + 128));
  expect("streaming_llm:cache=nvfp4,cache_scale=0.01", kKept * (72 + 36));
  expect("quest:dense_layers=0,cache=q8_0", 32 * 4 * 128 + kKept * (136 + 68));
  expect("skip_softmax:cache=fp8_e5m2", kLength * 128 + kKept * 64);
  expect("twilight:dense_layers=0,base=none,cache=fp8_e4m3", kLength * (64 + 4) + kKept * (128 + 64));
  expect("sparq:cache=fp8_e4m3", 2 * 32 * kLength + 2 * 64 + kKept * (128 + 64));
  expect("ffd:cache=fp8_e4m3", 384 * 128 / 4 + 3 * 256 + (kKept - 118) * (128 + 64) + 118 * (128 + 64));
  expect("ffd:residual=exact,cache=q4_0", 384 * 128 / 4 + 3 * 256 + kKept * (72 + 36));
  expect("ffd:scan=exact,cache=q4_0", 384 * 72 + (kKept - 118) * 36 + 118 * (72 + 36));
  expect("kivi:cache=fp8_e4m3",
         384 * 32 + 384 / 32 * 4 * 128 + 118 * 128 + 373 * 16 + 373 * 2 * 4 + (kLength - 373) * 64);
  expect("imported:file=own.h5,dataset=tokens,cache=fp8_e4m3", kKept * 192);
  expect("imported:file=own.h5,dataset=tokens,token_bytes=7,cache=fp8_e4m3", kKept * 7);
  // Latent attention: a key brings its value, and a value alone is that part of the key.
  const KvShape latent{192, 128, true};
  expect("topk:cache=fp8_ds_mla", kKept * (128 + 4 + 128), latent);
  expect("topk:cache=fp8_e4m3", kKept * 192, latent);
  expect("skip_softmax:cache=fp8_e4m3", kLength * 192, latent);
  expect("ffd:cache=fp8_ds_mla", 384 * 192 / 4 + 3 * 384 + kKept * 260, latent);
  expect("ffd:residual=none,cache=fp8_ds_mla", 384 * 192 / 4 + 3 * 384 + (kKept - 118) * 132 + 118 * 260, latent);
}

TEST(CachedSelector, OptionsAreThoseOfTheSelectorAndTheCache) {
  const auto value_of = [](const Selector& from, const std::string& name) {
    const auto found = std::ranges::find(from.options(), name, &OptionValue::name);
    return found == from.options().end() ? "none" : found->value;
  };
  const auto cached = selector_of("quest:page=24,dense_layers=1,cache=nvfp4+fp8_e4m3");
  EXPECT_EQ(cached->name(), "quest");
  EXPECT_EQ(value_of(*cached, "page"), "24");
  EXPECT_EQ(value_of(*cached, "cache"), "nvfp4+fp8_e4m3");
  EXPECT_EQ(value_of(*selector_of("quest"), "cache"), "none");
  EXPECT_TRUE(cached->is_dense(0, 0));
  EXPECT_FALSE(cached->is_dense(1, 0));
  EXPECT_TRUE(cached->needs_amax());
  EXPECT_FALSE(selector_of("quest:cache=fp8_e4m3")->needs_amax());
  EXPECT_TRUE(selector_of("quest:cache=fp8_e4m3,cache_scale=amax_head")->needs_amax());
  EXPECT_TRUE(selector_of("topk:cache=native+q4_0")->needs_exact_order());
  EXPECT_FALSE(selector_of("topk:cache=q4_0")->needs_exact_order());
}

TEST(CachedSelector, ALayerWithAQuantisedHeadNeedsItsScales) {
  const ScratchFolder folder;
  const std::string path = scales_of_two_layers(folder);
  const auto error = [&](const std::string& options, int layer) {
    return message_of<InputError>([&] {
      selector_of("quest:cache=fp8_e4m3,cache_scale=file,cache_scales_file=" + path + options)->check_layer(layer, 2);
    });
  };
  const std::string missing =
      path + ": has no tensor layers.2.*k_scale, expected the scale of layer 2 (dense_heads leaves it in 16 bit)";
  EXPECT_EQ(error(",dense_layers=0", 0), "");
  EXPECT_EQ(error("", 2), missing);
  EXPECT_EQ(error(",dense_heads=2:0", 2), missing);
  EXPECT_EQ(error(",dense_heads=2:0+2:1", 2), "");
}

TEST(CachedSelector, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& text, KvShape kv = {128, 128}) {
    return message_of<UsageError>([&] { selector_of(text)->check(kv); });
  };
  EXPECT_EQ(refusal("quest:cache=fp9"),
            "selector 'quest': option 'cache' has 'fp9', expected FORMAT or K_FORMAT+V_FORMAT of native, fp8_e4m3, "
            "fp8_e5m2, nvfp4, nvfp4_4over6, q8_0, q5_1, q5_0, q4_1, q4_0, turboquant4, turboquant3, int4_token_head, "
            "fp8_ds_mla");
  EXPECT_EQ(refusal("quest:cache=q4_0+fp8_ds_mla"),
            "selector 'quest': option 'cache' has 'fp8_ds_mla' for values, expected a format that stores values");
  EXPECT_EQ(refusal("topk:cache=q4_0", {128, 80}),
            "selector 'topk': option 'cache' has 'q4_0', and values have 80 channels, expected a multiple of 32");
  EXPECT_EQ(refusal("topk:cache=fp8_ds_mla"),
            "selector 'topk': option 'cache' has 'fp8_ds_mla', and keys have no values among their channels, expected "
            "latent attention (dump attribute values_in_keys)");
  EXPECT_EQ(refusal("topk:cache=fp8_ds_mla", {576, 512, true}), "");
  EXPECT_EQ(refusal("topk:cache=nvfp4,cache_scale=amax_head"),
            "selector 'topk': option 'cache_scale' is 'amax_head', expected another: nvfp4 has one scale for all KV "
            "heads");
  EXPECT_EQ(refusal("topk:cache_scale=amax"), "selector 'topk': option 'cache_scale' needs the option 'cache'");
  EXPECT_EQ(refusal("quest:cache=fp8_e4m3,cache_scale=file"),
            "selector 'quest': option 'cache_scale' is 'file', expected the option 'cache_scales_file' beside it");
  EXPECT_EQ(refusal("kv_cache:k=fp8_e4m3,k_scale=file"),
            "selector 'kv_cache': option 'k_scale' is 'file', expected the option 'scales_file' beside it");
  EXPECT_EQ(refusal("topk:cache_scales_file=x"),
            "selector 'topk': option 'cache_scales_file' needs the option 'cache'");
  EXPECT_NE(refusal("exact:cache=fp8_e4m3").find("selector 'exact' has no option 'cache'"), std::string::npos);
  EXPECT_NE(refusal("kv_cache:cache=fp8_e4m3").find("selector 'kv_cache' has no option 'cache'"), std::string::npos);
  EXPECT_NE(refusal("kivi:group=48,residual_length=96,cache=fp8_e4m3").find("group is 48"), std::string::npos);
}

TEST(CachedSelector, ASettingsFileIsOfTheSameCache) {
  const ScratchFolder folder;
  const std::string path = folder.file("settings.json");
  const auto write = [&](const std::string& options) {
    std::ofstream(path)
        << R"({"format": "attest-recommendation", "format_version": 1, "model": "m", "setting": "delta", )"
        << R"("default": 3, "selector": {"name": "ffd", "options": {)" << options << "}}}";
  };
  const auto refusal = [&](const std::string& cache) {
    return message_of<UsageError>([&] { selector_of("ffd:settings_file=" + path + cache); });
  };
  write(R"("bits": "2", "cache": "fp8_e4m3", "cache_scale": "", "cache_scales_file": "")");
  EXPECT_EQ(refusal(",cache=fp8_e4m3"), "");
  EXPECT_NE(refusal(",cache=q4_0").find("option 'cache' is 'q4_0'"), std::string::npos);
  EXPECT_NE(refusal("").find("was made with option 'cache' = 'fp8_e4m3'"), std::string::npos);
  write(R"("bits": "2")");
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(",cache=q4_0"), "selector 'ffd': option 'cache' is 'q4_0', and " + path + " was made without it");
}

}  // namespace
}  // namespace attest::test
