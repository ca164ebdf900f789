// Dumps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "dumps/base/content_hash.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/file_format.h"
#include "dumps/inspect/inspect.h"
#include "dumps/layer_store.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"

namespace attest::fuzz {
namespace {

/// What only some dumps have: values in keys, learned sinks, gradients, checksums of chunks, texts of fixed length.
void add_rare_parts(const std::string& path) {
  const test::Edit edit(path);
  const std::string sample = "/samples/first", layer = sample + "/layers/0";
  edit.integer("/", "values_in_keys", 1);
  edit.text(sample, "document", "a book");
  const test::Handle label = test::own(H5Tcopy(H5T_C_S1));
  test::done(H5Tset_size(label.get(), 8));
  edit.dataset(sample + "/span_labels", label.get(), {2}, "needle\0\0answer\0\0");
  edit.zeros(sample + "/margin", H5T_NATIVE_FLOAT, {3});
  edit.zeros(sample + "/answer_token", H5T_NATIVE_INT32, {3});
  const std::string bits = "/samples/second/layers/3/v";  // bfloat16 as h5py can write it
  edit.zeros(bits, H5T_STD_U16LE, {2, 23, 5});
  edit.text(bits, "dtype", "bfloat16");
  edit.zeros(layer + "/sinks", H5T_NATIVE_FLOAT, {6});
  edit.zeros(layer + "/head_gradient", H5T_NATIVE_FLOAT, {3, 6});
  const test::Handle half = test::float_type(5, 10, 15), chunked = test::own(H5Pcreate(H5P_DATASET_CREATE));
  edit.zeros(layer + "/output_gradient", half.get(), {2, 3, 6, 5});
  const double scales[]{1, 0.5};
  edit.attribute(layer + "/output_gradient", "scales", H5T_NATIVE_DOUBLE, scales, {2});
  const hsize_t chunk[]{1, 16, 8};
  test::done(H5Pset_chunk(chunked.get(), 3, chunk));
  test::done(H5Pset_shuffle(chunked.get()));
  test::done(H5Pset_fletcher32(chunked.get()));
  edit.zeros(sample + "/layers/2/k", half.get(), {2, 40, 8}, chunked.get());
}

std::vector<std::string> dump_seeds(const ScratchFolder& folder) {
  const std::string path = folder.file("seed.h5");
  std::vector<std::string> seeds;
  constexpr std::size_t kOften = 24;  // the last one takes ten times as long
  for (const int gzip : {0, 4}) {
    for (const auto write :
         {+[](const std::string&to, const DumpWriterOptions&o) { test::write_small_dump(to, o); },
          +[](const std::string&to, const DumpWriterOptions&o) { test::write_old_format_dump(to, o); }}) {
      write(path, {.overwrite = true, .gzip_level = gzip});
      seeds.insert(seeds.end(), kOften, bytes_of_file(path));
      add_rare_parts(path);
      seeds.insert(seeds.end(), kOften, bytes_of_file(path));
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

/// A tensor that comes in pieces.
class Pieces {
 public:
  explicit Pieces(std::size_t bytes) : bytes_(bytes) {}
  void put(std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill) {
    require(bytes <= LayerStore::kPieceBytes && offset <= bytes_.size() && bytes <= bytes_.size() - offset,
            "a piece outside its tensor");
    fill({bytes_.data() + offset, bytes});
    told_ += bytes;
  }
  bool are(const std::byte* other) const {
    return told_ == bytes_.size() && std::equal(bytes_.begin(), bytes_.end(), other);
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t told_ = 0;
};

class PiecesStore final : public LayerStore {
 public:
  bool reserve(std::size_t key_bytes, std::size_t value_bytes) override {
    of_ = {Pieces(key_bytes), Pieces(value_bytes)};
    return true;
  }
  void put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) override {
    of_[static_cast<std::size_t>(tensor)].put(offset, bytes, fill);
  }
  bool are(const AttentionLayer& layer) const { return of_[0].are(layer.k.data()) && of_[1].are(layer.v.data()); }

 private:
  std::vector<Pieces> of_;
};

/// The same values as a GPU gets them: the queries, then keys and values in pieces, of all heads and of the last one.
void check_pieces(const DumpReader& dump, std::size_t index, int number, const AttentionLayer& layer, bool finite) {
  const LayerInfo& info = dump.layer_info(index, number);
  const int heads = dump.info().shape.num_kv_heads;
  AttentionLayer queries;
  const bool finite_queries = dump.read_queries(index, number, queries);
  require(queries.q.size() == layer.q.size() &&
              std::equal(layer.q.data(), layer.q.data() + layer.q.size(), queries.q.data()),
          "queries alone");
  PiecesStore store;
  store.reserve(info.k.bytes, info.v.bytes);
  const std::size_t k = info.k.bytes / static_cast<std::size_t>(heads),
                    v = info.v.bytes / static_cast<std::size_t>(heads);
  store.arrival.begin(heads, k, v);
  const bool finite_others = dump.read_keys_and_values(index, number, store, 1);
  require(finite == (finite_queries && finite_others), "pieces are finite, or not, as the layer is");
  require(store.are(layer), "pieces are those of the layer");
  require(!finite_others || store.arrival.wait(heads, std::chrono::milliseconds(0)).heads == heads,
          "a head is missing");
  if (!finite_others || !dump.reads_heads(index, number)) return;
  Pieces keys(k), values(v);
  dump.read_heads(
      index, number, heads - 1, 1,
      [&](KvTensor tensor, std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill) {
        (tensor == KvTensor::k ? keys : values).put(offset, bytes, fill);
      },
      1);
  require(keys.are(layer.k.data() + layer.k.size() - k) && values.are(layer.v.data() + layer.v.size() - v),
          "the last head alone");
}

void check_sample(const DumpReader& dump, std::size_t index, bool arrays) {
  const SampleInfo& sample = dump.info().samples[index];
  const AttentionShape& shape = dump.info().shape;
  require(sample.num_tokens > 0 && !sample.query_positions.empty() && !sample.layers.empty(), "an empty sample");
  for (std::size_t i = 0; i < sample.query_positions.size(); ++i)
    require(sample.query_positions[i] >= 0 && sample.query_positions[i] < sample.num_tokens &&
                (i == 0 || sample.query_positions[i] > sample.query_positions[i - 1]),
            "query positions");
  if (arrays) {
    const std::size_t tokens = dump.read_array<std::int32_t>(index, "tokens").size();
    require(tokens == (contains(sample.arrays, "tokens") ? static_cast<std::size_t>(sample.num_tokens) : 0), "tokens");
    const std::size_t queries = sample.query_positions.size();
    require(dump.read_array<float>(index, "margin").size() == (contains(sample.arrays, "margin") ? queries : 0),
            "margins");
    require(dump.read_array<std::int32_t>(index, "answer_token").size() ==
                (contains(sample.arrays, "answer_token") ? queries : 0),
            "tokens of the answer");
  }
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
    if (arrays) check_pieces(dump, index, number, layer, finite);
    if (!arrays) continue;
    const std::size_t mass = dump.read_array<float>(index, number, "attention_mass").size();
    const auto expected = [&](std::string_view name, std::int64_t size) {
      return contains(info.arrays, name) ? static_cast<std::size_t>(size) : 0;
    };
    require(mass == expected("attention_mass", shape.num_query_heads * sample.num_tokens), "mass");
    const std::int64_t rows_of_heads = std::ssize(sample.query_positions) * shape.num_query_heads;
    require(
        dump.read_array<float>(index, number, "output").size() == expected("output", rows_of_heads * shape.value_dim),
        "output");
    require(dump.read_array<float>(index, number, "output_lse").size() == expected("output_lse", rows_of_heads),
            "output_lse");
    require(dump.read_array<float>(index, number, kOutputGradient).size() ==
                expected(kOutputGradient,
                         std::ssize(info.gradient_scales) * rows_of_heads * static_cast<std::int64_t>(shape.value_dim)),
            "output gradients");
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
    const std::uint64_t hash = hash_of(std::as_bytes(std::span(input)));  // of some inputs more is read
    if (hash % 4 == 0) outcome_of(path, [&] { file_format(path); });
    return outcome_of(path, [&] {
      constexpr std::uint64_t kLittleMemory = 1000;  // less than a layer
      const DumpReader dump(path, hash % 64 == 2 ? kLittleMemory : 0);
      require(dump.info().file_bytes == static_cast<std::int64_t>(input.size()), "the size of the file");
      require(!dump.info().samples.empty(), "no sample");
      for (std::size_t i = 0; i < dump.info().samples.size(); ++i) check_sample(dump, i, hash % 2 == 0);
      if (hash % 8 == 1) check_reports(dump);  // every value again
    });
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_ = dump_seeds(folder_);
};

}  // namespace

const TargetInfo kDumpTarget{"dump", ".h5", 400, [] { return std::unique_ptr<FuzzTarget>(new DumpTarget); }};

}  // namespace attest::fuzz
