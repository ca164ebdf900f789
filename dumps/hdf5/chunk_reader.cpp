// ChunkReader: gzip through zlib; shuffle and fletcher32 as HDF5 defines them.
#include "dumps/hdf5/chunk_reader.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dumps/base/input_file.h"
#include "dumps/base/join.h"

namespace attest::hdf5 {
namespace {

constexpr std::size_t kFletcher32Bytes = 4;

/// HDF5's variant: big-endian words of 16 bits, an odd last byte as the high one.
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxWords = 360;  // so many sums do not overflow
  std::uint32_t low = 0, high = 0;
  const auto reduce = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  const std::size_t words = (bytes.size() + 1) / 2;
  for (std::size_t word = 0; word < words; ++word) {
    const std::size_t at = 2 * word;
    const auto second = at + 1 < bytes.size() ? std::to_integer<std::uint32_t>(bytes[at + 1]) : 0;
    low += std::to_integer<std::uint32_t>(bytes[at]) << 8 | second;
    high += low;
    if ((word + 1) % kMaxWords == 0) low = reduce(low), high = reduce(high);
  }
  low = reduce(reduce(low)), high = reduce(reduce(high));
  return high << 16 | low;
}

}  // namespace

ChunkReader::ChunkReader(const Node& data, const Handle& creation, std::span<const std::int64_t> shape,
                         std::size_t element_bytes)
    : data_(data), shape_(shape.begin(), shape.end()), element_bytes_(element_bytes) {
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    char name[64] = "";
    std::array<unsigned, 8> parameters{};
    std::size_t num_parameters = parameters.size();
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &num_parameters,
                                               parameters.data(), sizeof name, name, nullptr);
    if (filter < 0) data.fail_with_library_error("the filters are damaged");
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32)
      data.fail(fmt::format("needs the filter {} ({}), which is not available; expected gzip, shuffle or fletcher32",
                            static_cast<int>(filter), *name == '\0' ? "no name" : name));
    if (filter == H5Z_FILTER_DEFLATE && std::exchange(inflates_, true)) data.fail("is compressed twice, expected once");
    if (filter == H5Z_FILTER_SHUFFLE && (num_parameters == 0 || parameters[0] == 0))
      data.fail("the filters are damaged");
    filters_.push_back({filter, parameters[0]});
  }
  unsigned options = 0;
  if (H5Pget_chunk_opts(creation.get(), &options) < 0) data.fail_with_library_error("the chunk shape is damaged");
  if ((options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0 && !filters_.empty())
    data.fail("leaves the chunks at its end unfiltered, expected the same filters for all");

  std::vector<hsize_t> extent(shape_.size());
  if (H5Pget_chunk(creation.get(), static_cast<int>(extent.size()), extent.data()) != static_cast<int>(extent.size()))
    data.fail_with_library_error("the chunk shape is damaged");
  for (const hsize_t size : extent) {
    if (size == 0 || size > 0xffffffffu) data.fail("the chunk shape is damaged");  // the format stores 32 bits
    extent_.push_back(static_cast<std::int64_t>(size));
  }
}

std::size_t ChunkReader::chunk_bytes() const {
  std::size_t bytes = element_bytes_;
  for (const std::int64_t size : extent_) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

void ChunkReader::fail_at(std::span<const hsize_t> first, std::string_view what) const {
  data_.fail(fmt::format("its chunk at [{}] {}", join(first, ", "), what));
}

void ChunkReader::inflate_chunk(std::size_t expected, std::span<const hsize_t> first) {
  scratch_.resize(std::max<std::size_t>(expected, 1));
  uLongf got = expected;
  const int status = uncompress(reinterpret_cast<Bytef*>(scratch_.data()), &got,
                                reinterpret_cast<const Bytef*>(chunk_.data()), chunk_.size());
  if (status == Z_BUF_ERROR)
    fail_at(first, fmt::format("is cut off, or inflates to more than the expected {} bytes", expected));
  if (status != Z_OK) fail_at(first, "is damaged: its gzip stream cannot be inflated");
  scratch_.resize(got);
  chunk_.swap(scratch_);
}

void ChunkReader::unshuffle(std::size_t element_bytes) {
  const std::size_t elements = chunk_.size() / element_bytes;
  if (element_bytes == 1 || elements <= 1) return;
  scratch_.resize(chunk_.size());
  const std::byte* from = chunk_.data();
  for (std::size_t byte = 0; byte < element_bytes; ++byte)
    for (std::size_t i = 0; i < elements; ++i) scratch_[i * element_bytes + byte] = *from++;
  std::copy<const std::byte*>(from, chunk_.data() + chunk_.size(), scratch_.data() + elements * element_bytes);
  chunk_.swap(scratch_);
}

void ChunkReader::check_fletcher32(std::span<const hsize_t> first) {
  if (chunk_.size() < kFletcher32Bytes) fail_at(first, "is damaged: it has no checksum");
  const std::size_t size = chunk_.size() - kFletcher32Bytes;
  if (little_endian<std::uint32_t>(chunk_.data() + size) != fletcher32(std::span(chunk_).first(size)))
    fail_at(first, "is damaged: its checksum does not agree");
  chunk_.resize(size);
}

void ChunkReader::undo(const Filter& filter, std::size_t expected, std::span<const hsize_t> first) {
  if (filter.id == H5Z_FILTER_DEFLATE) inflate_chunk(expected, first);
  if (filter.id == H5Z_FILTER_SHUFFLE) unshuffle(filter.parameter);
  if (filter.id == H5Z_FILTER_FLETCHER32) check_fletcher32(first);
}

void ChunkReader::load(std::span<const hsize_t> first) {
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(data_.id(), first.data(), &stored) < 0)
    data_.fail_with_library_error("the index of chunks is damaged");
  if (stored == 0 || stored > static_cast<hsize_t>(data_.file().bytes))
    fail_at(first, fmt::format("claims {} bytes, the file has {}", stored, data_.file().bytes));
  chunk_.resize(stored);
  std::uint32_t left_out = 0;  // a bit for each filter that this chunk lacks
  if (H5Dread_chunk(data_.id(), H5P_DEFAULT, first.data(), &left_out, chunk_.data()) < 0)
    data_.fail_with_library_error("the values cannot be read");
  const auto applied = [&](std::size_t i) { return i >= 32 || (left_out >> i & 1) == 0; };
  const std::size_t decoded = chunk_bytes();
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (!applied(i)) continue;
    std::size_t expected = decoded;  // before filter i was applied
    for (std::size_t j = 0; j < i; ++j)
      if (applied(j) && filters_[j].id == H5Z_FILTER_FLETCHER32) expected += kFletcher32Bytes;
    undo(filters_[i], expected, first);
  }
  if (chunk_.size() != decoded)
    fail_at(first, fmt::format("holds {} bytes of values, expected {}", chunk_.size(), decoded));
}

template <class Visit>
void ChunkReader::each_chunk(std::int64_t begin, std::int64_t end, Visit visit) {
  std::vector<hsize_t> first(shape_.size(), 0);
  first[0] = static_cast<hsize_t>(begin - begin % extent_[0]);
  for (;;) {
    load(first);
    visit(std::span<const hsize_t>(first));
    std::size_t axis = first.size();
    for (;;) {  // counts up, the last axis fastest
      if (axis-- == 0) return;
      first[axis] += static_cast<hsize_t>(extent_[axis]);
      if (static_cast<std::int64_t>(first[axis]) < (axis == 0 ? end : shape_[axis])) break;
      if (axis == 0) return;
      first[axis] = 0;
    }
  }
}

void ChunkReader::check_all() {
  each_chunk(0, shape_[0], [](std::span<const hsize_t>) {});
}

void ChunkReader::read_rows(std::int64_t begin, std::int64_t count, std::span<std::byte> out) {
  const std::size_t rank = shape_.size();
  // Bytes from one index to the next along each axis, in `out` and in a chunk.
  std::vector<std::size_t> out_step(rank, element_bytes_), chunk_step(rank, element_bytes_);
  for (std::size_t axis = rank - 1; axis-- > 0;) {
    out_step[axis] = out_step[axis + 1] * static_cast<std::size_t>(shape_[axis + 1]);
    chunk_step[axis] = chunk_step[axis + 1] * static_cast<std::size_t>(extent_[axis + 1]);
  }
  each_chunk(begin, begin + count, [&](std::span<const hsize_t> first) {
    const auto copy = [&](const auto& self, std::size_t axis, std::byte* to, const std::byte* from) -> void {
      const auto origin = static_cast<std::int64_t>(first[axis]);
      const std::int64_t minimum = axis == 0 ? begin : 0;
      const std::int64_t low = std::max(origin, minimum);
      const std::int64_t high = std::min(origin + extent_[axis], axis == 0 ? begin + count : shape_[axis]);
      to += static_cast<std::size_t>(low - minimum) * out_step[axis];
      from += static_cast<std::size_t>(low - origin) * chunk_step[axis];
      if (axis + 1 == rank) {
        std::memcpy(to, from, static_cast<std::size_t>(high - low) * element_bytes_);
        return;
      }
      for (std::int64_t i = low; i < high; ++i, to += out_step[axis], from += chunk_step[axis])
        self(self, axis + 1, to, from);
    };
    copy(copy, 0, out.data(), chunk_.data());
  });
}

}  // namespace attest::hdf5
