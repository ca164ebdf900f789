// Sound results files.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_study.h"

namespace attest::fuzz {

inline constexpr const char* kManifest = R"({"configuration": {"salient_delta": 5}, "layers_left_out": []})";

/// One of each kind of axes, and what figures draw first. A file of all metrics is read in four times the time.
inline bool is_of_few(const MetricValues& metric) {
  constexpr const char* kFew[]{"lse",      "recall",   "recall_layer",    "lse_error",
                               "io_ratio", "spearman", "scan_error_tail", "span_token_heads"};
  return std::ranges::find(kFew, metric.name) != std::end(kFew);
}

/// The writer never does, but a reader has to decode it.
inline void compress_recall(const std::string& path, const Study& study) {
  const test::Edit edit(path);
  const StudySample& sample = study.dumps[0].samples[0];
  const std::vector<hsize_t> shape{sample.layers.size(), sample.query_positions.size(),
                                   static_cast<hsize_t>(study.dumps[0].shape.num_query_heads),
                                   study.selectors[0].grid.size()};
  const test::Handle properties = test::own(H5Pcreate(H5P_DATASET_CREATE));
  test::done(H5Pset_chunk(properties.get(), static_cast<int>(shape.size()), shape.data()));
  test::done(H5Pset_deflate(properties.get(), 1));
  edit.zeros("/dumps/0/samples/" + sample.name + "/" + study.selectors[0].label + "/recall", H5T_IEEE_F32LE, shape,
             properties.get());
}

/// A results file as the writer writes it, in HDF5's earliest format, whose bytes have no checksums, and with
/// compressed values.
inline std::vector<std::string> results_seeds_of(const ScratchFolder& folder, const Study& study, bool few) {
  const std::string path = folder.file("seed.h5"), old = folder.file("old.h5");
  ResultsWriter writer(path, study);
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s)
      for (const int layer : study.dumps[d].samples[s].layers) {
        LayerResults results = fuzz_results(study, {d, s, layer});
        if (few) {
          std::erase_if(results.scores, std::not_fn(is_of_few));
          for (SelectorLayerResults& selector : results.selectors)
            std::erase_if(selector.metrics, std::not_fn(is_of_few));
        }
        writer.add(results);
      }
  writer.finish(kManifest);
  {
    const hdf5::Lock lock;
    const test::Handle source = test::own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)),
                       target = test::own(H5Fcreate(old.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    test::done(H5Ocopy(source.get(), "/dumps", target.get(), "dumps", H5P_DEFAULT, H5P_DEFAULT));
  }
  {
    const test::Edit edit(old);
    edit.text("/", "format", "attention-study");
    edit.integer("/", "format_version", 1);
    edit.text("/", "manifest", kManifest);
  }
  const std::string plain = bytes_of_file(path);
  compress_recall(path, study);
  return {plain, bytes_of_file(old), bytes_of_file(path)};
}

/// What no writer leaves, behind changes that are rarely made at random: values beyond their metric's range, samples
/// with other selectors, margins, heads that do not divide.
inline std::vector<std::string> odd_results_seeds(const ScratchFolder& folder, const Study& study) {
  const StudySample& sample = study.dumps[0].samples[0];
  const std::string dump = "/dumps/0", at = dump + "/samples/" + sample.name, scores = at + "/scores",
                    selector = at + "/" + study.selectors[0].label;
  const hsize_t layers = sample.layers.size(), queries = sample.query_positions.size(),
                heads = static_cast<hsize_t>(study.dumps[0].shape.num_query_heads),
                settings = study.selectors[0].grid.size();
  const auto floats = [](const test::Edit& edit, const std::string& object, std::vector<hsize_t> extents, float value) {
    hsize_t count = 1;
    for (const hsize_t extent : extents) count *= extent;
    edit.dataset(object, H5T_NATIVE_FLOAT, extents, std::vector<float>(count, value).data());
  };
  const std::vector<hsize_t> of_scores{layers, queries, heads}, of_settings{layers, queries, heads, settings};
  constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::function<void(const test::Edit&)>> changes{
      [&](const test::Edit& edit) { floats(edit, scores + "/margin", {queries}, 0.5f); },
      [&](const test::Edit& edit) { floats(edit, scores + "/margin", {queries}, kInfinite); },
      [&](const test::Edit& edit) { floats(edit, scores + "/lse", of_scores, kInfinite); },
      [&](const test::Edit& edit) { floats(edit, scores + "/lse", of_scores, kNan); },
      [&](const test::Edit& edit) { floats(edit, selector + "/recall", of_settings, 2); },
      [&](const test::Edit& edit) { floats(edit, selector + "/spearman", of_settings, kNan); },
      [&](const test::Edit& edit) { floats(edit, selector + "/io_ratio", of_settings, -1); },
      [&](const test::Edit& edit) { edit.zeros(selector + "/done", H5T_NATIVE_UINT8, {layers}); },
      [&](const test::Edit& edit) { edit.integer(dump, "num_kv_heads", static_cast<std::int64_t>(heads) + 1); },
      [&](const test::Edit& edit) { edit.text("/", "format", "attention-dump"); },
      [&](const test::Edit& edit) { edit.text(selector, "setting", "other"); },
      [&](const test::Edit& edit) { edit.remove(at + "/" + study.selectors.back().label); },
      [&](const test::Edit& edit) { edit.integer(at, "num_tokens", 1 << 20); },
      [&](const test::Edit& edit) { edit.text(at, "document", "a book"); }};
  const std::string path = folder.file("odd.h5"), whole = results_seeds_of(folder, study, true)[0];
  std::vector<std::string> seeds;
  for (const auto& change : changes) {
    folder.write("odd.h5", whole);
    change(test::Edit(path));
    seeds.push_back(bytes_of_file(path));
  }
  return seeds;
}

/// Of the whole study, of a tenth of it, mostly of few metrics of that, and odd ones.
inline std::vector<std::string> results_seeds(const ScratchFolder& folder) {
  Study small = fuzz_study();
  small.selectors.resize(1);
  small.dumps.resize(1);
  small.dumps[0].samples.resize(1);
  std::vector<std::string> seeds;
  const auto add = [&](const Study& study, bool few, std::size_t times) {
    for (const std::string& seed : results_seeds_of(folder, study, few)) seeds.insert(seeds.end(), times, seed);
  };
  add(fuzz_study(), false, 1);
  add(small, false, 3);
  add(small, true, 20);
  for (const std::string& seed : odd_results_seeds(folder, fuzz_study())) seeds.insert(seeds.end(), 2, seed);
  return seeds;
}

}  // namespace attest::fuzz
