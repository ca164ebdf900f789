// Bytes of safetensors files and npz archives, for tests that read, damage or forge them.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string safetensors(std::string_view header, std::string_view data = "") {
  return little(header.size(), 8) + std::string(header) + std::string(data);
}

/// A NumPy array file: `dict` is the header's Python literal.
inline std::string npy(std::string_view dict, std::string_view data, int version = 1) {
  const std::string header = std::string(dict) + "\n";
  return "\x93NUMPY" + little(static_cast<std::uint64_t>(version), 1) + little(0, 1) +
         little(header.size(), version == 1 ? 2 : 4) + header + std::string(data);
}

inline std::string npy_dict(std::string_view descr, std::string_view shape, bool fortran = false) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + std::string(shape) + ", }";
}

inline std::string deflate_raw(std::string_view bytes) {
  std::string out(bytes.size() + bytes.size() / 100 + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One member; what is left at its default is computed from `content`.
struct ZipEntry {
  std::string name;
  std::string content;
  bool deflated = false;
  bool zip64 = false;  ///< sizes and offset in ZIP64 fields, as numpy.savez writes them when large
  int flags = 0;
  int method = -1;
  std::int64_t size = -1;    ///< claimed, uncompressed
  std::int64_t stored = -1;  ///< claimed, in the file
  std::int64_t crc = -1;
  std::int64_t offset = -1;  ///< claimed, of the local header
};

/// `zip64_end` writes the ZIP64 end record and its locator.
inline std::string zip(const std::vector<ZipEntry>& entries, bool zip64_end = false,
                       std::int64_t claimed_members = -1) {
  std::string file, directory;
  for (const ZipEntry& e : entries) {
    const std::string data = e.deflated ? deflate_raw(e.content) : e.content;
    const auto or_else = [](std::int64_t value, std::uint64_t other) {
      return value < 0 ? other : static_cast<std::uint64_t>(value);
    };
    const std::uint64_t method = or_else(e.method, e.deflated ? 8 : 0), size = or_else(e.size, e.content.size()),
                        stored = or_else(e.stored, data.size()), offset = or_else(e.offset, file.size()),
                        crc = or_else(e.crc, ::crc32(0, reinterpret_cast<const Bytef*>(e.content.data()),
                                                     static_cast<uInt>(e.content.size())));
    const std::string fields =
        little(static_cast<std::uint64_t>(e.flags), 2) + little(method, 2) + little(0, 4) + little(crc, 4);
    const std::string local_extra = e.zip64 ? little(1, 2) + little(16, 2) + little(size, 8) + little(stored, 8) : "";
    const std::string central_extra =
        e.zip64 ? little(1, 2) + little(24, 2) + little(size, 8) + little(stored, 8) + little(offset, 8) : "";
    const std::string sizes =
        e.zip64 ? little(0xFFFFFFFF, 4) + little(0xFFFFFFFF, 4) : little(stored, 4) + little(size, 4);
    directory += "PK\1\2" + little(45, 2) + little(45, 2) + fields + sizes + little(e.name.size(), 2) +
                 little(central_extra.size(), 2) + little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                 little(e.zip64 ? 0xFFFFFFFF : offset, 4) + e.name + central_extra;
    file += "PK\3\4" + little(45, 2) + fields + sizes + little(e.name.size(), 2) + little(local_extra.size(), 2) +
            e.name + local_extra + data;
  }
  const std::uint64_t begin = file.size(),
                      members = claimed_members < 0 ? entries.size() : static_cast<std::uint64_t>(claimed_members);
  file += directory;
  if (zip64_end) {
    const std::uint64_t end64 = file.size();
    file += "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 4) + little(0, 4) +
            little(members, 8) + little(members, 8) + little(directory.size(), 8) + little(begin, 8);
    file += "PK\6\7" + little(0, 4) + little(end64, 8) + little(1, 4);
    return file + "PK\5\6" + little(0, 2) + little(0, 2) + little(0xFFFF, 2) + little(0xFFFF, 2) +
           little(0xFFFFFFFF, 4) + little(0xFFFFFFFF, 4) + little(0, 2);
  }
  return file + "PK\5\6" + little(0, 2) + little(0, 2) + little(members, 2) + little(members, 2) +
         little(directory.size(), 4) + little(begin, 4) + little(0, 2);
}

}  // namespace attest
