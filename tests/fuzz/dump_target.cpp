// Dumps, and files of estimates, which are laid out like dumps.
#include <cmath>
#include <filesystem>
#include <limits>

#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"
#include "dumps/inspect/file_format.h"
#include "dumps/inspect/inspect.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"

namespace attest::fuzz {
namespace {

std::vector<std::string> dump_seeds(const ScratchFolder& folder) {
  const std::string path = folder.file("seed.h5");
  std::vector<std::string> seeds;
  for (const int gzip : {0, 4}) {
    for (const auto write :
         {+[](const std::string&to, const DumpWriterOptions&o) { test::write_small_dump(to, o); },
          +[](const std::string&to, const DumpWriterOptions&o) { test::write_old_format_dump(to, o); }}) {
      write(path, {.overwrite = true, .gzip_level = gzip});
      seeds.push_back(bytes_of_file(path));
    }
  }
  test::write_dump_at_odd_offset(path, {.overwrite = true});
  seeds.push_back(bytes_of_file(path));
  return seeds;
}

bool all_finite(ElementType type, const LayerBuffer& buffer) {
  std::vector<float> values(buffer.size() / size_of(type));
  convert_to_float(type, buffer.data(), values.size(), values.data());
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

void check_sample(const DumpReader& dump, std::size_t index) {
  const SampleInfo& sample = dump.info().samples[index];
  const AttentionShape& shape = dump.info().shape;
  require(sample.num_tokens > 0 && !sample.query_positions.empty() && !sample.layers.empty(), "an empty sample");
  for (std::size_t i = 0; i < sample.query_positions.size(); ++i)
    require(sample.query_positions[i] >= 0 && sample.query_positions[i] < sample.num_tokens &&
                (i == 0 || sample.query_positions[i] > sample.query_positions[i - 1]),
            "query positions");
  const std::size_t tokens = dump.read_array<std::int32_t>(index, "tokens").size();
  require(tokens == (contains(sample.arrays, "tokens") ? static_cast<std::size_t>(sample.num_tokens) : 0), "tokens");
  AttentionLayer layer;
  for (const int number : sample.layers) {
    require(number >= 0 && number < dump.info().num_layers, "the number of a layer");
    dump.check_memory(index, number);
    const bool finite = dump.read_layer(index, number, layer);
    const LayerInfo& info = dump.layer_info(index, number);
    const std::size_t element = size_of(info.element_type);
    const auto heads = [&](int count) { return static_cast<std::size_t>(count) * element; };
    const auto rows = static_cast<std::size_t>(sample.num_tokens) * heads(shape.num_kv_heads);
    require(layer.q.size() ==
                sample.query_positions.size() * heads(shape.num_query_heads) * static_cast<std::size_t>(shape.head_dim),
            "q");
    require(layer.k.size() == rows * static_cast<std::size_t>(shape.head_dim), "k");
    require(layer.v.size() == rows * static_cast<std::size_t>(shape.value_dim), "v");
    require(finite == (all_finite(layer.element_type, layer.q) && all_finite(layer.element_type, layer.k) &&
                       all_finite(layer.element_type, layer.v)),
            "values are finite, or not, as read_layer says");
    const std::size_t mass = dump.read_array<float>(index, number, "attention_mass").size();
    const auto expected = [&](const char* name, std::int64_t size) {
      return contains(info.arrays, name) ? static_cast<std::size_t>(size) : 0;
    };
    require(mass == expected("attention_mass", shape.num_query_heads * sample.num_tokens), "mass");
    const std::int64_t rows_of_heads = std::ssize(sample.query_positions) * shape.num_query_heads;
    require(
        dump.read_array<float>(index, number, "output").size() == expected("output", rows_of_heads * shape.value_dim),
        "output");
    require(dump.read_array<float>(index, number, "output_lse").size() == expected("output_lse", rows_of_heads),
            "output_lse");
  }
}

void check_reports(const DumpReader& dump) {
  const DumpCheck check = check_dump(dump);
  require(printable(verdict(dump, check)) == verdict(dump, check), "a verdict of more than a line");
  for (const auto& document : {summary_json(dump), check_json(dump, check)}) document.dump(2);
  require(!summary_text(dump).empty() && !check_text(dump, check).empty(), "a report without text");
}

class DumpTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_hdf5(folder_.file("made.h5"), any_of(random, seeds_), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("dump.h5", input);
    outcome_of(path, [&] { file_format(path); });
    return outcome_of(path, [&] {
      const DumpReader dump(path);
      require(dump.info().file_bytes == static_cast<std::int64_t>(input.size()), "the size of the file");
      require(!dump.info().samples.empty(), "no sample");
      for (std::size_t i = 0; i < dump.info().samples.size(); ++i) check_sample(dump, i);
      if (input.size() % 4 == 0) check_reports(dump);  // reads every value again
    });
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_ = dump_seeds(folder_);
};

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
  }
  return bytes_of_file(path);
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
    });
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_{estimates_seed(folder_, H5T_IEEE_F32LE, false),
                                        estimates_seed(folder_, H5T_IEEE_F64LE, true)};
};

}  // namespace

const TargetInfo kDumpTarget{"dump", ".h5", 100, [] { return std::unique_ptr<FuzzTarget>(new DumpTarget); }};
const TargetInfo kEstimatesTarget{"estimates", ".h5", 80,
                                  [] { return std::unique_ptr<FuzzTarget>(new EstimatesTarget); }};

}  // namespace attest::fuzz
