// Sound results files.
#pragma once

#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_study.h"

namespace attest::fuzz {

inline constexpr const char* kManifest = R"({"configuration": {"salient_delta": 5}, "layers_left_out": []})";

/// A results file as the writer writes it, and in HDF5's earliest format, whose bytes have no checksums.
inline std::vector<std::string> results_seeds_of(const ScratchFolder& folder, const Study& study) {
  const std::string path = folder.file("seed.h5"), old = folder.file("old.h5");
  ResultsWriter writer(path, study);
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s)
      for (const int layer : study.dumps[d].samples[s].layers) writer.add(fuzz_results(study, {d, s, layer}));
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
  return {bytes_of_file(path), bytes_of_file(old)};
}

/// Of the whole study, and of a tenth of it, which is read in a tenth of the time.
inline std::vector<std::string> results_seeds(const ScratchFolder& folder) {
  Study small = fuzz_study();
  small.selectors.resize(1);
  small.dumps.resize(1);
  small.dumps[0].samples.resize(1);
  std::vector<std::string> seeds = results_seeds_of(folder, fuzz_study());
  for (std::string& seed : results_seeds_of(folder, small)) seeds.insert(seeds.end(), 3, seed);
  return seeds;
}

}  // namespace attest::fuzz
