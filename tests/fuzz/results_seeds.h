// Sound results files.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
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

/// Of the whole study, of a tenth of it, and mostly of few metrics of that.
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
  return seeds;
}

}  // namespace attest::fuzz
