// Files of estimates, which are laid out like dumps.
#include "dumps/format/estimate_reader.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"

namespace attest::fuzz {
namespace {

constexpr int kWidth = 16;

std::string estimates_seed(const ScratchFolder& folder, hid_t type, bool gzip) {
  const std::string path = folder.file("seed.h5");
  test::write_small_dump(path, {.overwrite = true});
  {
    const test::Edit edit(path);
    const test::Handle properties = test::own(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[]{1, 2, 2};
    if (gzip) {
      test::done(H5Pset_chunk(properties.get(), 3, chunk));
      test::done(H5Pset_deflate(properties.get(), 1));
    }
    edit.zeros("/samples/first/layers/0/estimate", type, {3, 6, 3}, properties.get());
    edit.zeros("/samples/second/layers/3/estimate", type, {1, 2, 2}, properties.get());
    edit.zeros("/samples/first/layers/0/keys", type, {2, 40, 8});
    edit.zeros("/samples/first/layers/0/values", type, {2, 40, 5});
  }
  return bytes_of_file(path);
}

/// Of a method that hands over what it computes with instead of scores.
void read_vectors(const std::string& path, EstimateKind kind) {
  const AttentionShape shape = test::small_header().shape;
  const bool keys = kind == EstimateKind::keys;
  const EstimatedLayer layers[]{{"first", 0, shape, 3, 40}};
  const EstimateReader reader({path, keys ? "keys" : "values", 1, kind}, layers);
  LayerEstimates vectors(std::pmr::get_default_resource());
  reader.read("first", 0, vectors);
  require(vectors.num_heads == shape.num_kv_heads && vectors.num_entries == 40, "a vector for each token");
  require(vectors.values.size() == 2 * 40 * static_cast<std::size_t>(keys ? 8 : 5) * sizeof(float), "their size");
}

class EstimatesTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_hdf5(folder_.file("made.h5"), any_of(random, seeds_), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("estimates.h5", input);
    const AttentionShape shape = test::small_header().shape;
    const EstimatedLayer layers[]{{"first", 0, shape, 3, 40}, {"second", 3, shape, 1, 23}};
    return outcome_of(path, [&] {
      const EstimateReader reader({path, "estimate", kWidth}, layers);
      for (const EstimatedLayer& layer : layers) {
        LayerEstimates estimates(std::pmr::get_default_resource());
        reader.read(layer.sample, layer.layer, estimates);
        require(estimates.num_entries == (layer.num_tokens + kWidth - 1) / kWidth, "the number of estimates");
        require(estimates.num_heads == shape.num_query_heads || estimates.num_heads == shape.num_kv_heads, "heads");
        require(estimates.values.size() ==
                    static_cast<std::size_t>(layer.num_queries * estimates.num_heads * estimates.num_entries) *
                        (estimates.in_double ? 8 : 4),
                "the size of the values");
      }
      for (const EstimateKind kind : {EstimateKind::keys, EstimateKind::values}) read_vectors(path, kind);
    });
  }

 private:
  ScratchFolder folder_;
  const test::Handle half_ = test::float_type(5, 10, 15);
  const std::vector<std::string> seeds_{estimates_seed(folder_, H5T_IEEE_F32LE, false),
                                        estimates_seed(folder_, H5T_IEEE_F64LE, true),
                                        estimates_seed(folder_, half_.get(), false)};
};

}  // namespace

const TargetInfo kEstimatesTarget{"estimates", ".h5", 400,
                                  [] { return std::unique_ptr<FuzzTarget>(new EstimatesTarget); }};

}  // namespace attest::fuzz
