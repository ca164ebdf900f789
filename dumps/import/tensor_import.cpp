// Copies the values.
#include "dumps/import/tensor_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "dumps/base/error.h"
#include "dumps/dump_writer.h"

namespace attest {
namespace {

constexpr std::int64_t kSlabBytes = std::int64_t{4} << 20;

/// Rows of channels from anywhere in `values` to rows that lie together.
void gather_row(const TensorView& view, std::size_t element, const std::byte* values, std::byte* row) {
  const auto channels = static_cast<std::size_t>(view.channel.extent),
             stride = static_cast<std::size_t>(view.channel.stride);
  if (channels == 1 || stride == 1) {
    std::memcpy(row, values, channels * element);
    return;
  }
  for (std::size_t c = 0; c < channels; ++c) std::memcpy(row + c * element, values + c * stride * element, element);
}

/// One array of one layer and sample.
class LayerCopy {
 public:
  LayerCopy(TensorSource& source, const ImportPlan::Tensor& tensor, std::size_t element, std::int64_t batch)
      : source_(source), tensor_(tensor), view_(tensor.view), element_(element), batch_(batch) {}

  /// [N, Hq, D] to write(first, count, values).
  template <class Write>
  void queries(Write&& write) {
    const Values all = load();
    const std::size_t row = row_bytes();
    Bytes rows(static_cast<std::size_t>(view_.token.extent * view_.head.extent) * row);
    std::byte* out = rows.data();
    for (std::int64_t t = 0; t < view_.token.extent; ++t)
      for (std::int64_t h = 0; h < view_.head.extent; ++h, out += row) gather_row(view_, element_, all.at(h, t), out);
    write(0, view_.token.extent, rows.data());
  }

  /// [Hkv, T, D] in slabs to write(kv_head, first, count, values), in the order of the file where that is possible.
  template <class Write>
  void heads(Write&& write) {
    if (view_.is_htd()) return by_head(write);
    if (view_.is_thd()) return by_token(write);
    const Values all = load();
    by_slab(kSlabBytes, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t h = 0; h < view_.head.extent; ++h) write_rows(all, h, first, count, write);
    });
  }

 private:
  using Bytes = std::vector<std::byte>;

  /// Values in the order of the file, from element `begin` on.
  struct Values {
    std::unique_ptr<std::byte[]> bytes;
    std::int64_t begin;
    const LayerCopy& copy;
    const std::byte* at(std::int64_t h, std::int64_t t) const {
      return bytes.get() + static_cast<std::size_t>(copy.view_.offset(copy.batch_, h, t) - begin) * copy.element_;
    }
  };

  std::size_t row_bytes() const { return static_cast<std::size_t>(view_.channel.extent) * element_; }

  Values read(std::int64_t begin, std::int64_t elements) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * element_;
    try {
      Values values{std::make_unique_for_overwrite<std::byte[]>(bytes), begin, *this};
      source_.read(tensor_.index, static_cast<std::uint64_t>(begin) * element_, {values.bytes.get(), bytes});
      return values;
    } catch (const std::bad_alloc&) {
      throw InputError(fmt::format("{}: expected an array that fits in memory, found {} bytes",
                                   source_.tensors()[tensor_.index].place(), bytes));
    }
  }

  /// All values of the sample, or of all samples when they are interleaved.
  Values load() {
    const std::int64_t sample = view_.head.extent * view_.token.extent * view_.channel.extent;
    return view_.batch_is_slowest() ? read(batch_ * sample, sample) : read(0, sample * view_.batch.extent);
  }

  template <class Slab>
  void by_slab(std::int64_t slab_bytes, Slab&& slab) {
    const std::int64_t rows = std::max<std::int64_t>(1, slab_bytes / static_cast<std::int64_t>(row_bytes()));
    for (std::int64_t first = 0; first < view_.token.extent; first += rows)
      slab(first, std::min(rows, view_.token.extent - first));
  }

  template <class Write>
  void by_head(Write& write) {
    for (std::int64_t h = 0; h < view_.head.extent; ++h)
      by_slab(kSlabBytes, [&](std::int64_t first, std::int64_t count) {
        const Values slab = read(view_.offset(batch_, h, first), count * view_.channel.extent);
        write(static_cast<int>(h), first, count, slab.bytes.get());
      });
  }

  template <class Write>
  void by_token(Write& write) {
    by_slab(kSlabBytes / view_.head.extent, [&](std::int64_t first, std::int64_t count) {
      const Values slab = read(view_.offset(batch_, 0, first), count * view_.head.extent * view_.channel.extent);
      for (std::int64_t h = 0; h < view_.head.extent; ++h) write_rows(slab, h, first, count, write);
    });
  }

  template <class Write>
  void write_rows(const Values& values, std::int64_t h, std::int64_t first, std::int64_t count, Write& write) {
    rows_.resize(static_cast<std::size_t>(count) * row_bytes());
    for (std::int64_t t = 0; t < count; ++t)
      gather_row(view_, element_, values.at(h, first + t), rows_.data() + static_cast<std::size_t>(t) * row_bytes());
    write(static_cast<int>(h), first, count, rows_.data());
  }

  TensorSource& source_;
  const ImportPlan::Tensor& tensor_;
  const TensorView& view_;
  std::size_t element_;
  std::int64_t batch_;
  Bytes rows_;
};

DumpInfo header(const ImportPlan& plan, const ImportOptions& options) {
  DumpInfo header;
  header.model = options.model;
  header.num_layers = plan.num_layers;
  header.shape = plan.shape;
  header.softmax_scale = options.softmax_scale;
  header.logit_softcap = options.logit_softcap;
  header.rope = options.rope;
  header.source = nlohmann::ordered_json{{"generator", "attest import"}, {"layout", options.layout}}.dump();
  return header;
}

SampleInfo sample_info(const ImportPlan::Sample& sample, const ImportOptions& options) {
  SampleInfo info;
  info.name = sample.name;
  info.task = options.task;
  info.num_tokens = sample.num_tokens;
  info.query_positions = sample.query_positions;
  info.spans = options.spans;
  return info;
}

}  // namespace

void write_import(TensorSource& source, const ImportPlan& plan, const ImportOptions& options, const std::string& target,
                  bool overwrite, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  DumpWriter writer(target, header(plan, options), {.overwrite = overwrite});
  std::int64_t done = 0;
  for (const ImportPlan::Sample& sample : plan.samples) {
    writer.begin_sample(sample_info(sample, options));
    for (const ImportPlan::Layer& layer : sample.layers) {
      const bool windowed = options.window_layers.empty() || std::ranges::count(options.window_layers, layer.layer) > 0;
      writer.begin_layer(layer.layer, layer.element_type, windowed ? options.sliding_window : 0);
      const std::size_t element = size_of(layer.element_type);
      const auto advance = [&](std::int64_t rows, std::int64_t width) {
        done += rows * width * static_cast<std::int64_t>(element);
        if (progress) progress(done, plan.bytes);
      };
      LayerCopy(source, layer.q, element, sample.batch)
          .queries([&](std::int64_t first, std::int64_t count, const std::byte* rows) {
            writer.write_q(first, count, rows);
            advance(count, std::int64_t{plan.shape.num_query_heads} * plan.shape.head_dim);
          });
      LayerCopy(source, layer.k, element, sample.batch)
          .heads([&](int head, std::int64_t first, std::int64_t count, const std::byte* rows) {
            writer.write_k(head, first, count, rows);
            advance(count, plan.shape.head_dim);
          });
      LayerCopy(source, layer.v, element, sample.batch)
          .heads([&](int head, std::int64_t first, std::int64_t count, const std::byte* rows) {
            writer.write_v(head, first, count, rows);
            advance(count, plan.shape.value_dim);
          });
    }
  }
  writer.finish();
}

}  // namespace attest
