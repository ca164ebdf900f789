// Members of the archive as tensors.
#include "dumps/import/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/import/npy_header.h"
#include "dumps/import/zip_archive.h"

namespace attest {
namespace {

/// Bytes per element, 0 where the type does not tell them simply.
std::uint64_t item_size(const std::string& descr) {
  constexpr std::string_view kinds = "biufcVSmM";
  if (descr.size() < 3 || kinds.find(descr[1]) == kinds.npos) return 0;
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), size);
  return error == std::errc{} && size <= 1u << 20 ? size : 0;
}

class NpzFile final : public TensorSource {
 public:
  explicit NpzFile(const std::string& path) : file_(path), members_(read_zip_directory(file_)) {
    std::erase_if(members_, [](const ZipMember& member) { return !member.name.ends_with(".npy"); });
    std::set<std::string> names;
    for (const ZipMember& member : members_) {
      add(member);
      if (!names.insert(tensors_.back().name).second)
        throw InputError(fmt::format("{}: expected each member once, found {} twice", path, in_quotes(member.name)));
    }
  }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) override {
    if (!reader_ || reading_ != index) {
      reader_.emplace(file_, members_.at(index));
      reading_ = index;
      // From the first byte on, so that the checksum covers the header too.
      if (offset == 0) skip(header_bytes_[index]);
    }
    reader_->read(header_bytes_[index] + offset, out);
  }

 private:
  void skip(std::size_t bytes) {
    std::vector<std::byte> skipped(bytes);
    reader_->read(0, skipped);
  }

  void add(const ZipMember& member) {
    SourceTensor tensor;
    tensor.file = file_.path();
    tensor.name = member.name.substr(0, member.name.size() - 4);
    std::vector<std::byte> start(std::min<std::uint64_t>(member.size, kLongestNpyHeader));
    // Headers are short: most members need no more than the first part.
    const std::size_t first = std::min<std::size_t>(start.size(), 1024);
    ZipMemberReader reader(file_, member);
    reader.read(0, std::span(start).first(first));
    NpyHeader header;
    try {
      header = parse_npy_header(std::span(start).first(first), tensor.place());
    } catch (const InputError&) {
      if (first == start.size()) throw;
      reader.read(first, std::span(start).subspan(first));
      header = parse_npy_header(start, tensor.place());
    }

    tensor.type_name = header.descr;
    tensor.shape = header.shape;
    tensor.column_major = header.fortran_order;
    if (const std::uint64_t item = item_size(header.descr)) {
      const auto elements = checked_elements(header.shape);
      const std::uint64_t data = member.size - header.bytes;
      if (!elements || data % item != 0 || data / item != static_cast<std::uint64_t>(*elements))
        throw InputError(fmt::format("{}: expected data for shape {} of {}, found {} bytes", tensor.place(),
                                     shape_text(header.shape), in_quotes(header.descr), data));
    }
    if (header.descr == "<f4") tensor.element_type = ElementType::float32;
    if (header.descr == "<f2") tensor.element_type = ElementType::float16;
    // ml_dtypes' bfloat16 is stored as two bytes of no type.
    tensor.bits_of_16 =
        header.descr == "<u2" || header.descr == "<i2" || header.descr == "|V2" || header.descr == "<V2";
    header_bytes_.push_back(header.bytes);
    tensors_.push_back(std::move(tensor));
  }

  InputFile file_;
  std::vector<ZipMember> members_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::size_t> header_bytes_;
  std::optional<ZipMemberReader> reader_;
  std::size_t reading_ = 0;
};

}  // namespace

std::unique_ptr<TensorSource> open_npz(const std::string& path) { return std::make_unique<NpzFile>(path); }

}  // namespace attest
