// DumpReader: contiguous values are read with pread, all others decoded in a guarded child.
#include "dumps/format/dump_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/format/decoded_values.h"
#include "dumps/format/dump_fields.h"
#include "dumps/format/dump_metadata.h"
#include "dumps/format/kv_pieces.h"
#include "dumps/format/memory_bound.h"
#include "dumps/format/tensor_slices.h"
#include "dumps/format/value_check.h"
#include "dumps/hdf5/guarded_child.h"
#include "dumps/hdf5/node.h"

namespace attest {
namespace {

DumpMetadata read_metadata(const InputFile& file, const std::function<void()>& meanwhile) {
  const std::string& path = file.path();
  const ChildLimits limits = metadata_limits(file.stored_bytes());
  std::string bytes;
  run_in_guarded_child(
      path, limits,
      [&](ChildOutput& output) {
        const std::string encoded = encode(read_dump_metadata(hdf5::open_file(file)));
        output.write(std::as_bytes(std::span(encoded)));
      },
      [&](ChildInput& input) {
        if (meanwhile) meanwhile();
        bytes = input.read_all(limits.memory_bytes);
      });
  try {
    return decode(bytes);
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: the file is damaged, its metadata cannot be read ({})", path, error.what()));
  }
}

}  // namespace

struct DumpReader::State {
  State(const std::string& path, std::uint64_t allowed, const std::function<void()>& meanwhile)
      : allowed_memory(allowed), file(path), metadata(read_metadata(file, meanwhile)) {}

  const LayerInfo& layer_info(std::size_t sample, int layer) const { return metadata.layers.at(sample).at(layer); }

  /// The array `name` of a sample or layer.
  template <class T, class Owner>
  std::vector<T> read_array(const std::string& group_path, const Owner& owner, const Axes& axes,
                            std::string_view name) const {
    constexpr bool kIntegers = std::is_integral_v<T>;
    const auto fields = fields_of(owner);
    const auto field = std::ranges::find(fields, name, &Field<Owner>::name);
    const std::optional<ElementType> reals = field == fields.end() ? std::nullopt : type_of_reals(owner, field->type);
    if (field == fields.end() || (kIntegers ? std::string_view(field->type) != "int32" : !reals))
      throw std::logic_error(fmt::format("DumpReader: no array '{}' of this type", name));
    if (!contains(owner.arrays, name)) return {};
    std::size_t count = 1;
    for (const std::int64_t size : axes.sizes(field->shape)) count *= static_cast<std::size_t>(size);
    if constexpr (kIntegers)
      return read_integers(file, allowed_memory, group_path, field->name, count);
    else
      return read_reals(file, allowed_memory, group_path, field->name, *reals, count);
  }

  /// Of the elements of an array; `type` is the one in the format's tables.
  template <class Owner>
  static std::optional<ElementType> type_of_reals(const Owner& owner, std::string_view type) {
    if (type == "float32") return ElementType::float32;
    if (type == "float16") return ElementType::float16;
    if constexpr (requires { owner.output_type; })
      if (type.empty()) return owner.output_type;
    return std::nullopt;
  }

  std::string layer_path(std::size_t sample, int layer) const {
    return fmt::format("/samples/{}/layers/{}", metadata.info.samples[sample].name, layer);
  }

  void check_memory(std::size_t sample, int layer, std::uint64_t more = 0) const {
    check_memory_bound(file, layer_path(sample, layer),
                       static_cast<std::uint64_t>(layer_info(sample, layer).bytes()) + more, allowed_memory);
  }

  /// Fills everything but the tensors. `in_store`: keys and values go to out.store.
  void begin(std::size_t sample, int layer, bool in_store, AttentionLayer& out) const {
    check_memory(sample, layer);
    out.layer = layer;
    static_cast<ModelAttention&>(out) = metadata.info;
    static_cast<LayerAttention&>(out) = layer_info(sample, layer);
    static_cast<SampleTokens&>(out) = metadata.info.samples[sample];
    out.in_store = in_store;
    out.source = nullptr;
    if (in_store) out.k.resize(0), out.v.resize(0);
    for (LayerEstimates& estimates : out.estimates) estimates.values.resize(0);
    out.output_gradient.clear();
  }

  /// A tensor that is read into host memory as a whole.
  struct Tensor {
    const char* name;
    const TensorLocation& location;
    LayerBuffer& buffer;
  };

  bool read_buffers(std::size_t sample, int layer, std::span<const Tensor> tensors, const Workers& threads,
                    const BlockObserver& observe) const {
    const ElementType type = layer_info(sample, layer).element_type;
    std::vector<DecodedTarget> decoded;
    std::vector<TensorSlice> slices;
    for (const Tensor& tensor : tensors) {
      tensor.buffer.resize(tensor.location.bytes);
      const std::span bytes(tensor.buffer.data(), tensor.location.bytes);
      if (tensor.location.file_offset < 0) decoded.push_back(decoded_target(tensor.name, type, bytes));
      add_slices(tensor.location.file_offset, bytes, slices);
    }
    if (!decoded.empty()) read_decoded(file, layer_path(sample, layer), decoded);
    const std::size_t element_bytes = size_of(type);
    std::atomic<bool> finite{true};
    threads.run(slices.size(), [&](int, std::size_t i) {
      const TensorSlice& slice = slices[i];
      const std::span<std::byte> bytes = slice.bytes();
      const std::uint64_t offset = static_cast<std::uint64_t>(slice.file_offset) + slice.begin;
      if (slice.file_offset >= 0) file.read(offset, bytes);
      if (!all_finite(type, slice.elements(element_bytes))) finite = false;
      if (observe && slice.file_offset >= 0 && bytes.size() == kFileBlock) observe(offset / kFileBlock, bytes);
    });
    return finite && std::ranges::all_of(slices, [&](const TensorSlice& slice) {
             return all_finite(type, slice.cut_element(element_bytes));
           });
  }

  bool stream(std::size_t sample, int layer, LayerStore& store, const Workers& threads, const BlockObserver& observe,
              ValueCheck check) const {
    const LayerInfo& stored = layer_info(sample, layer);
    const ElementType type = stored.element_type;
    std::atomic<bool> finite{true};
    // `read` fills a piece and returns whether it is finite.
    const auto put = [&](const KvPiece& piece, const std::function<bool(std::span<std::byte>)>& read) {
      store.arrival.add_begun(piece.end - piece.begin);
      store.put(piece.tensor, piece.begin, piece.end - piece.begin, [&](std::span<std::byte> to) {
        if (!read(to)) finite = false;
      });
      if (finite) store.arrival.add(piece.tensor, piece.begin, piece.end - piece.begin);
    };
    const auto receive = [&](ChildInput& input, KvTensor tensor, std::size_t bytes) {
      std::size_t received = 0;
      for (std::size_t at = 0; at < bytes && received == at; at += LayerStore::kPieceBytes)
        put({tensor, at, std::min(at + LayerStore::kPieceBytes, bytes)}, [&](std::span<std::byte> to) {
          const std::size_t size = input.read(to);
          received += size;
          return size == to.size() && (check == ValueCheck::no || all_finite(type, to));
        });
      return received;
    };
    std::vector<DecodedTarget> decoded;
    for (const auto& [name, tensor, location] :
         {std::tuple("k", KvTensor::k, &stored.k), std::tuple("v", KvTensor::v, &stored.v)})
      if (location->file_offset < 0)
        decoded.push_back({name, type, location->bytes, [&receive, tensor, bytes = location->bytes](ChildInput& input) {
                             return receive(input, tensor, bytes);
                           }});
    if (!decoded.empty()) read_decoded(file, layer_path(sample, layer), decoded);
    const std::vector<KvPiece> pieces = kv_pieces(stored.k, stored.v, metadata.info.shape.num_kv_heads);
    threads.run(pieces.size(), [&](int, std::size_t i) {
      const std::int64_t offset = (pieces[i].tensor == KvTensor::k ? stored.k : stored.v).file_offset;
      put(pieces[i],
          [&](std::span<std::byte> to) { return read_piece(file, offset, pieces[i], type, observe, to, check); });
    });
    return finite;
  }

  std::uint64_t allowed_memory;
  InputFile file;
  DumpMetadata metadata;
};

DumpReader::DumpReader(const std::string& path, std::uint64_t allowed_memory, const std::function<void()>& meanwhile)
    : state_(std::make_unique<State>(path, allowed_memory, meanwhile)) {}
DumpReader::~DumpReader() = default;
DumpReader::DumpReader(DumpReader&&) noexcept = default;
DumpReader& DumpReader::operator=(DumpReader&&) noexcept = default;

const DumpInfo& DumpReader::info() const { return state_->metadata.info; }

const LayerInfo& DumpReader::layer_info(std::size_t sample, int layer) const {
  return state_->layer_info(sample, layer);
}

void DumpReader::check_memory(std::size_t sample, int layer, std::uint64_t more) const {
  state_->check_memory(sample, layer, more);
}

bool DumpReader::read_layer(std::size_t sample, int layer, AttentionLayer& out, const Workers& threads,
                            const BlockObserver& observe) const {
  const LayerInfo& stored = layer_info(sample, layer);
  state_->begin(sample, layer, false, out);
  return state_->read_buffers(sample, layer, {{{"q", stored.q, out.q}, {"k", stored.k, out.k}, {"v", stored.v, out.v}}},
                              threads, observe);
}

bool DumpReader::read_queries(std::size_t sample, int layer, AttentionLayer& out, const Workers& threads,
                              const BlockObserver& observe) const {
  state_->begin(sample, layer, true, out);
  return state_->read_buffers(sample, layer, {{{"q", layer_info(sample, layer).q, out.q}}}, threads, observe);
}

bool DumpReader::read_keys_and_values(std::size_t sample, int layer, LayerStore& store, const Workers& threads,
                                      const BlockObserver& observe, ValueCheck check) const {
  return state_->stream(sample, layer, store, threads, observe, check);
}

LayerBlocks DumpReader::layer_blocks(std::size_t sample, int layer) const {
  const LayerInfo& stored = layer_info(sample, layer);
  return attest::layer_blocks(stored.k, stored.v);
}

bool DumpReader::reads_heads(std::size_t sample, int layer) const {
  const LayerInfo& stored = layer_info(sample, layer);
  return stored.k.file_offset >= 0 && stored.v.file_offset >= 0;
}

void DumpReader::read_heads(std::size_t sample, int layer, int first, int count, const KvSource::Put& put,
                            const Workers& threads) const {
  if (!reads_heads(sample, layer)) throw std::logic_error("read_heads: the values are not contiguous");
  const LayerInfo& stored = layer_info(sample, layer);
  const auto part = [&](const TensorLocation& all) {
    const std::size_t head = all.bytes / static_cast<std::size_t>(info().shape.num_kv_heads);
    return TensorLocation{.file_offset = all.file_offset + static_cast<std::int64_t>(head) * first,
                          .bytes = head * static_cast<std::size_t>(count)};
  };
  const TensorLocation k = part(stored.k), v = part(stored.v);
  const std::vector<KvPiece> pieces = kv_pieces(k, v, count);
  threads.run(pieces.size(), [&](int, std::size_t i) {
    const KvPiece& piece = pieces[i];
    const std::int64_t offset = piece.tensor == KvTensor::k ? k.file_offset : v.file_offset;
    put(piece.tensor, piece.begin, piece.end - piece.begin, [&](std::span<std::byte> to) {
      if (!read_piece(state_->file, offset, piece, stored.element_type, {}, to))
        fail_changed(info().path, state_->layer_path(sample, layer), "holds NaN or infinity");
    });
  });
}

template <class T>
std::vector<T> DumpReader::read_array(std::size_t sample, std::string_view name) const {
  const SampleInfo& owner = info().samples.at(sample);
  return state_->read_array<T>("/samples/" + owner.name, owner, Axes(info().shape, owner), name);
}

template <class T>
std::vector<T> DumpReader::read_array(std::size_t sample, int layer, std::string_view name) const {
  const SampleInfo& owner = info().samples.at(sample);
  const LayerInfo& stored = layer_info(sample, layer);
  Axes axes(info().shape, owner);
  axes.at("A") = std::ssize(stored.gradient_scales);
  return state_->read_array<T>(state_->layer_path(sample, layer), stored, axes, name);
}

template std::vector<std::int32_t> DumpReader::read_array(std::size_t, std::string_view) const;
template std::vector<float> DumpReader::read_array(std::size_t, std::string_view) const;
template std::vector<std::int32_t> DumpReader::read_array(std::size_t, int, std::string_view) const;
template std::vector<float> DumpReader::read_array(std::size_t, int, std::string_view) const;

}  // namespace attest
