// Changes a file with plain HDF5 calls, to make malformed and unusual dumps that DumpWriter cannot write.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "dumps/hdf5/handle.h"
#include "tests/dumps/format/small_dump.h"

namespace attest::test {

using hdf5::Handle;

template <class Result>
Result done(Result result) {
  if (result < 0) throw std::runtime_error("HDF5 in a test: " + hdf5::take_error_text());
  return result;
}
inline Handle own(hid_t id) { return Handle(done(id)); }

/// A dump opened for changes.
class Edit {
 public:
  explicit Edit(const std::string& path) : file_(done(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT))) {}

  hid_t file() const { return file_.get(); }
  Handle open(const std::string& object) const { return own(H5Oopen(file(), object.c_str(), H5P_DEFAULT)); }
  void remove(const std::string& object) const { done(H5Ldelete(file(), object.c_str(), H5P_DEFAULT)); }
  void group(const std::string& object) const {
    own(H5Gcreate2(file(), object.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  void soft_link(const std::string& target, const std::string& at) const {
    done(H5Lcreate_soft(target.c_str(), file(), at.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  }
  void external_link(const std::string& target_file, const std::string& target, const std::string& at) const {
    done(H5Lcreate_external(target_file.c_str(), target.c_str(), file(), at.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  }

  void remove_attribute(const std::string& object, const std::string& name) const {
    if (done(H5Aexists_by_name(file(), object.c_str(), name.c_str(), H5P_DEFAULT)) > 0) {
      done(H5Adelete_by_name(file(), object.c_str(), name.c_str(), H5P_DEFAULT));
    }
  }
  /// `extents` empty: a scalar. Replaces an existing attribute.
  void attribute(const std::string& object, const std::string& name, hid_t type, const void* value,
                 const std::vector<hsize_t>& extents = {}) const {
    remove_attribute(object, name);
    const Handle target = open(object);
    const Handle space = make_space(extents);
    const Handle attribute = own(H5Acreate2(target.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    done(H5Awrite(attribute.get(), type, value));
  }
  void integer(const std::string& object, const std::string& name, std::int64_t value) const {
    attribute(object, name, H5T_NATIVE_INT64, &value);
  }
  void number(const std::string& object, const std::string& name, double value) const {
    attribute(object, name, H5T_NATIVE_DOUBLE, &value);
  }
  /// A string attribute of fixed length.
  void text(const std::string& object, const std::string& name, const std::string& value) const {
    const Handle type = own(H5Tcopy(H5T_C_S1));
    done(H5Tset_size(type.get(), value.size() + 1));
    attribute(object, name, type.get(), value.c_str());
  }
  /// A list of strings of variable length, as H5DSset_label writes DIMENSION_LABELS.
  void texts(const std::string& object, const std::string& name, const std::vector<std::string>& values) const {
    const Handle type = own(H5Tcopy(H5T_C_S1));
    done(H5Tset_size(type.get(), H5T_VARIABLE));
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    attribute(object, name, type.get(), pointers.data(), {pointers.size()});
  }

  /// Replaces an existing object. `values` null: nothing is written.
  void dataset(const std::string& object, hid_t type, const std::vector<hsize_t>& extents, const void* values,
               hid_t properties = H5P_DEFAULT) const {
    if (H5Lexists(file(), object.c_str(), H5P_DEFAULT) > 0) remove(object);
    const Handle space = make_space(extents);
    const Handle data =
        own(H5Dcreate2(file(), object.c_str(), type, space.get(), H5P_DEFAULT, properties, H5P_DEFAULT));
    if (values != nullptr) done(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  }
  /// A data set of zeros.
  void zeros(const std::string& object, hid_t type, const std::vector<hsize_t>& extents,
             hid_t properties = H5P_DEFAULT) const {
    std::size_t count = H5Tget_size(type);
    for (const hsize_t extent : extents) count *= extent;
    dataset(object, type, extents, std::vector<std::byte>(count).data(), properties);
  }
  void integers(const std::string& object, const std::vector<hsize_t>& extents,
                const std::vector<std::int64_t>& values) const {
    dataset(object, H5T_NATIVE_INT64, extents, values.data());
  }

 private:
  static Handle make_space(const std::vector<hsize_t>& extents) {
    return own(extents.empty() ? H5Screate(H5S_SCALAR)
                               : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  }

  hdf5::Lock lock_;
  Handle file_;
};

/// A 16-bit float type with these fields.
inline Handle float_type(std::size_t exponent_bits, std::size_t mantissa_bits, std::size_t bias) {
  const hdf5::Lock lock;  // before HDF5 starts: the first Lock disables its exit handler
  Handle type = own(H5Tcopy(H5T_IEEE_F32LE));
  done(H5Tset_fields(type.get(), exponent_bits + mantissa_bits, mantissa_bits, exponent_bits, 0, mantissa_bits));
  done(H5Tset_size(type.get(), (1 + exponent_bits + mantissa_bits) / 8));
  done(H5Tset_ebias(type.get(), bias));
  return type;
}

/// The small dump in HDF5's earliest file format, which h5py writes too. It has no checksums, so bytes can be changed.
inline void write_old_format_dump(const std::string& path, const DumpWriterOptions& options = {}) {
  write_small_dump(path, options);
  const std::string old = path + ".old";
  {
    const hdf5::Lock lock;
    const Handle source = own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle target = own(H5Fcreate(old.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    done(H5Ocopy(source.get(), "/samples", target.get(), "samples", H5P_DEFAULT, H5P_DEFAULT));
  }
  {
    const Edit edit(old);
    const DumpInfo header = small_header();
    edit.text("/", "format", "attention-dump");
    edit.integer("/", "format_version", 1);
    edit.text("/", "model", header.model);
    edit.integer("/", "num_layers", header.num_layers);
    edit.integer("/", "num_query_heads", header.shape.num_query_heads);
    edit.integer("/", "num_kv_heads", header.shape.num_kv_heads);
    edit.integer("/", "head_dim", header.shape.head_dim);
    edit.integer("/", "value_dim", header.shape.value_dim);
    edit.number("/", "softmax_scale", header.softmax_scale);
  }
  std::filesystem::rename(old, path);
}

/// A dump of one layer whose float16 keys [1, kOddTokens, 8], all 1, are 1.1 MiB at an odd offset, as h5py writes them
/// after a data set of odd length: an element is cut by the border of the file's blocks.
inline constexpr std::int64_t kOddTokens = 70000;
inline void write_dump_at_odd_offset(const std::string& path, const DumpWriterOptions& options = {}) {
  DumpInfo header = small_header();
  header.shape = {.num_query_heads = 1, .num_kv_heads = 1, .head_dim = 8, .value_dim = 1};
  const std::vector<std::byte> zeros(23 * 8 * 2);
  DumpWriter writer(path, header, options);
  writer.begin_sample(small_samples()[1]);
  writer.begin_layer(0, {.element_type = ElementType::float16});
  writer.write_q(0, 1, zeros.data());
  writer.write_k(0, 0, 23, zeros.data());
  writer.write_v(0, 0, 23, zeros.data());
  writer.finish();
  const std::vector<std::uint16_t> ones(kOddTokens * 8, 0x3C00);
  const Edit edit(path);
  const Handle half = float_type(5, 10, 15);
  edit.integer("/samples/second", "num_tokens", kOddTokens);
  edit.zeros("/samples/second/layers/0/v", half.get(), {1, kOddTokens, 1});
  edit.zeros("/odd", H5T_STD_U8LE, {3001});
  edit.dataset("/samples/second/layers/0/k", half.get(), {1, kOddTokens, 8}, ones.data());
}

}  // namespace attest::test
