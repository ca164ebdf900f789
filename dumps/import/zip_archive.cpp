// The directory's checks, and inflating.
#include "dumps/import/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "dumps/base/error.h"
#include "dumps/import/tensor_source.h"

namespace attest {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderBytes = 30, kCentralHeaderBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kEnd64LocatorBytes = 20;

std::uint64_t u16(const std::byte* p) { return little_endian<std::uint16_t>(p); }
std::uint64_t u32(const std::byte* p) { return little_endian<std::uint32_t>(p); }
std::uint64_t u64(const std::byte* p) { return little_endian<std::uint64_t>(p); }

[[noreturn]] void fail(const InputFile& file, const std::string& sentence) {
  throw InputError(file.path() + ": zip archive: " + sentence);
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, members = 0;
};

/// Reads `out` at `offset` after checking that it lies in the file and begins with `signature`.
void read_record(const InputFile& file, std::uint64_t offset, std::uint32_t signature, std::string_view what,
                 std::span<std::byte> out) {
  if (offset > file.size() || out.size() > file.size() - offset)
    fail(file, fmt::format("expected its {} within {} bytes, found it at {}", what, file.size(), offset));
  file.read(offset, out);
  if (u32(out.data()) != signature)
    fail(file, fmt::format("expected its {} at byte {}, found other bytes", what, offset));
}

Directory find_directory(const InputFile& file) {
  constexpr std::uint64_t longest_comment = 0xFFFF;
  std::vector<std::byte> tail(std::min<std::uint64_t>(file.size(), kEndBytes + longest_comment));
  const std::uint64_t tail_begin = file.size() - tail.size();
  file.read(tail_begin, tail);
  for (std::size_t i = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; i-- > 0;) {
    const std::byte* end = &tail[i];
    if (u32(end) != kEnd || i + kEndBytes + u16(end + 20) != tail.size()) continue;
    Directory directory{u32(end + 16), u32(end + 12), u16(end + 10)};
    std::uint64_t disks = u16(end + 4) | u16(end + 6);
    if (directory.offset == 0xFFFFFFFF || directory.bytes == 0xFFFFFFFF || directory.members == 0xFFFF) {
      std::byte locator[kEnd64LocatorBytes], end64[kEnd64Bytes];
      if (tail_begin + i < kEnd64LocatorBytes) fail(file, "expected a ZIP64 locator, found none");
      read_record(file, tail_begin + i - kEnd64LocatorBytes, kEnd64Locator, "ZIP64 locator", locator);
      read_record(file, u64(locator + 8), kEnd64, "ZIP64 end record", end64);
      directory = {u64(end64 + 48), u64(end64 + 40), u64(end64 + 32)};
      disks = u32(end64 + 16) | u32(end64 + 20);
    }
    if (disks != 0) fail(file, "expected one file, found a part of several");
    return directory;
  }
  fail(file, "expected its end record, found none (a truncated file?)");
}

/// Replaces sizes and offset that the central header marks as too large for it by those of its ZIP64 field.
void read_zip64_field(const InputFile& file, std::span<const std::byte> extra, ZipMember& member,
                      std::uint64_t& local) {
  constexpr std::uint64_t marked = 0xFFFFFFFF;
  if (member.size != marked && member.compressed_size != marked && local != marked) return;
  while (extra.size() >= 4) {
    const std::uint64_t id = u16(&extra[0]), bytes = u16(&extra[2]);
    extra = extra.subspan(4);
    if (bytes > extra.size()) break;
    if (id == 1) {
      std::span<const std::byte> values = extra.first(bytes);
      for (std::uint64_t* value : {&member.size, &member.compressed_size, &local})
        if (*value == marked) {
          if (values.size() < 8) break;
          *value = u64(values.data());
          values = values.subspan(8);
        }
      return;
    }
    extra = extra.subspan(bytes);
  }
  fail(file, fmt::format("member {}: expected a ZIP64 field, found none", in_quotes(member.name)));
}

void check(const InputFile& file, std::uint64_t flags, std::uint64_t method, const ZipMember& member) {
  const auto require = [&](bool valid, std::string_view expected, const std::string& found) {
    if (!valid) fail(file, fmt::format("member {}: expected {}, found {}", in_quotes(member.name), expected, found));
  };
  require((flags & 1) == 0, "plain data", "an encrypted member");
  require(method == 0 || method == 8, "a stored or deflated member", fmt::format("compression method {}", method));
  require(member.data_offset <= file.size() && member.compressed_size <= file.size() - member.data_offset,
          fmt::format("data within the file's {} bytes", file.size()),
          fmt::format("{} bytes at {}", member.compressed_size, member.data_offset));
  // Deflate cannot shrink data more than 1032-fold.
  const std::uint64_t most = method == 0 ? member.compressed_size : (member.compressed_size + 1) * 1032;
  require(
      method == 0 ? member.size == most : member.size <= most,
      fmt::format("{} {} bytes for {} stored ones", method == 0 ? "exactly" : "at most", most, member.compressed_size),
      fmt::format("{}", member.size));
}

}  // namespace

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  if (directory.offset > file.size() || directory.bytes > file.size() - directory.offset)
    fail(file, fmt::format("expected its directory within {} bytes, found {} bytes at {}", file.size(), directory.bytes,
                           directory.offset));
  if (directory.members > directory.bytes / kCentralHeaderBytes)
    fail(file, fmt::format("expected at most {} members in a directory of {} bytes, found {}",
                           directory.bytes / kCentralHeaderBytes, directory.bytes, directory.members));
  std::vector<std::byte> bytes(directory.bytes);
  file.read(directory.offset, bytes);

  std::vector<ZipMember> members;
  std::span<const std::byte> rest = bytes;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    if (rest.size() < kCentralHeaderBytes || u32(rest.data()) != kCentralHeader)
      fail(file, fmt::format("expected {} members in its directory, found {}", directory.members, i));
    const std::byte* header = rest.data();
    const std::size_t name = u16(header + 28), extra = u16(header + 30), comment = u16(header + 32);
    if (name + extra + comment > rest.size() - kCentralHeaderBytes)
      fail(file, fmt::format("expected member {} to end within the directory, found it longer", i));
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(header + kCentralHeaderBytes), name);
    member.deflated = u16(header + 10) == 8;
    member.crc32 = static_cast<std::uint32_t>(u32(header + 16));
    member.compressed_size = u32(header + 20);
    member.size = u32(header + 24);
    std::uint64_t local = u32(header + 42);
    read_zip64_field(file, rest.subspan(kCentralHeaderBytes + name, extra), member, local);

    std::byte local_header[kLocalHeaderBytes];
    read_record(file, local, kLocalHeader, "header of member " + in_quotes(member.name), local_header);
    member.data_offset = local + kLocalHeaderBytes + u16(local_header + 26) + u16(local_header + 28);
    check(file, u16(header + 8), u16(header + 10), member);
    members.push_back(std::move(member));
    rest = rest.subspan(kCentralHeaderBytes + name + extra + comment);
  }
  return members;
}

struct ZipMemberReader::State {
  State(const InputFile& file_, const ZipMember& member_) : file(file_), member(member_) {
    if (member.deflated && inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~State() {
    if (member.deflated) inflateEnd(&stream);
  }

  [[noreturn]] void damaged(std::string_view found) const {
    fail(file,
         fmt::format("member {}: expected {} bytes of data, found {}", in_quotes(member.name), member.size, found));
  }

  void inflate_next(std::span<std::byte> out) {
    while (!out.empty()) {
      if (stream.avail_in == 0) {
        const std::uint64_t bytes = std::min<std::uint64_t>(sizeof input, member.compressed_size - consumed);
        file.read(member.data_offset + consumed, std::span(input).first(bytes));
        consumed += bytes;
        stream.next_in = reinterpret_cast<Bytef*>(input);
        stream.avail_in = static_cast<uInt>(bytes);
      }
      const auto room = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = room;
      const int result = inflate(&stream, Z_NO_FLUSH);
      out = out.subspan(room - stream.avail_out);
      if (out.empty()) break;
      if (result == Z_STREAM_END) damaged("fewer");
      if (result != Z_OK) damaged(result == Z_BUF_ERROR ? "fewer" : "damaged ones");
    }
  }

  /// Bytes in order, checked when the last one has come.
  void account(std::span<const std::byte> bytes) {
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const std::size_t some = std::min<std::size_t>(rest.size(), 1u << 30);
      checksum = ::crc32(checksum, reinterpret_cast<const Bytef*>(rest.data()), static_cast<uInt>(some));
      rest = rest.subspan(some);
    }
    position += bytes.size();
    if (position == member.size && checksum != member.crc32) damaged("a checksum that differs");
  }

  void restart() {
    if (member.deflated && inflateReset(&stream) != Z_OK) throw std::logic_error("zlib refused inflateReset");
    stream.avail_in = 0;
    consumed = position = 0;
    checksum = 0;
  }

  const InputFile& file;
  const ZipMember& member;
  z_stream stream{};
  std::byte input[1 << 16];
  std::uint64_t consumed = 0;  // of the compressed bytes
  std::uint64_t position = 0;  // bytes delivered in order
  uLong checksum = 0;          // of them
};

ZipMemberReader::ZipMemberReader(const InputFile& file, const ZipMember& member)
    : state_(std::make_unique<State>(file, member)) {}
ZipMemberReader::~ZipMemberReader() = default;
ZipMemberReader::ZipMemberReader(ZipMemberReader&&) noexcept = default;

void ZipMemberReader::read(std::uint64_t offset, std::span<std::byte> out) {
  State& s = *state_;
  if (offset > s.member.size || out.size() > s.member.size - offset)
    throw std::out_of_range("read beyond a zip member");
  if (!s.member.deflated) {
    s.file.read(s.member.data_offset + offset, out);
    if (offset == 0) s.restart();
    if (offset == s.position) s.account(out);
    return;
  }
  if (offset < s.position) s.restart();
  std::byte skipped[1 << 14];
  while (s.position < offset) {
    const auto bytes = std::span(skipped).first(std::min<std::uint64_t>(sizeof skipped, offset - s.position));
    s.inflate_next(bytes);
    s.account(bytes);
  }
  s.inflate_next(out);
  s.account(out);
}

}  // namespace attest
