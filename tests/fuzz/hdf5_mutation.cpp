// Mutation of HDF5 files.
#include "tests/fuzz/hdf5_mutation.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

using testing::done;
using testing::Edit;
using testing::Handle;
using testing::own;

struct Object {
  std::string path;
  bool is_data = false;
};

std::vector<Object> objects_of(const Edit& edit) {
  std::vector<Object> objects;
  const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* out) -> herr_t {
    static_cast<std::vector<Object>*>(out)->push_back(
        {std::strcmp(name, ".") == 0 ? "/" : "/" + std::string(name), info->type == H5O_TYPE_DATASET});
    return 0;
  };
  done(H5Ovisit2(edit.file(), H5_INDEX_NAME, H5_ITER_INC, visit, &objects, H5O_INFO_BASIC));
  return objects;
}

std::vector<std::string> attributes_of(const Edit& edit, const std::string& object) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  const Handle opened = edit.open(object);
  done(H5Aiterate2(opened.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &names));
  return names;
}

hid_t odd_type(RandomStream& random) {
  const hid_t types[]{H5T_IEEE_F64LE, H5T_IEEE_F32LE,  H5T_IEEE_F32BE, H5T_STD_I64LE, H5T_STD_U64LE,
                      H5T_STD_I32LE,  H5T_STD_U16LE,   H5T_STD_I16BE,  H5T_STD_U8LE,  H5T_STD_I8LE,
                      H5T_C_S1,       H5T_STD_REF_OBJ, H5T_STD_B8LE};
  return any_of(random, types);
}

/// Owned types that are more than a name: of the same family as those of a dump, or far from them.
Handle odd_compound_type(RandomStream& random) {
  const hsize_t two = 2;
  switch (random.below(5)) {
    case 0:
      return testing::float_type(5, 10, 15);
    case 1:
      return testing::float_type(8, 7, 127);
    case 2:
      return own(H5Tarray_create2(H5T_IEEE_F32LE, 1, &two));
    case 3:
      return own(H5Tvlen_create(H5T_IEEE_F32LE));
    default: {
      Handle type = own(H5Tcreate(H5T_COMPOUND, 16));
      done(H5Tinsert(type.get(), "a", 0, H5T_IEEE_F64LE));
      done(H5Tinsert(type.get(), "b", 8, H5T_STD_I64LE));
      return type;
    }
  }
}

double odd_number(RandomStream& random) {
  constexpr double kNumbers[]{0,  -0.0,   1,     -1,    0.5, 128.5,    1e-320,   1e39,
                              -5, 3.3e38, 65504, 1e300, NAN, HUGE_VAL, -HUGE_VAL};
  return any_of(random, kNumbers);
}

void change_attribute(const Edit& edit, const std::string& object, RandomStream& random) {
  const std::vector<std::string> names = attributes_of(edit, object);
  constexpr const char* kOptional[]{"sliding_window",   "rope",  "logit_softcap", "prompt_length",
                                    "DIMENSION_LABELS", "dtype", "created"};
  const std::string name = names.empty() || random.below(8) == 0 ? any_of(random, kOptional) : any_of(random, names);
  switch (random.below(9)) {
    case 0:
      edit.remove_attribute(object, name);
      break;
    case 1:
      edit.integer(object, name, static_cast<std::int64_t>(any_of(random, kOddNumbers)));
      break;
    case 2:
      edit.number(object, name, odd_number(random));
      break;
    case 3:
      edit.text(object, name, odd_text(random).substr(0, 60'000));
      break;
    case 4: {
      std::vector<std::string> texts(1 + random.below(40));
      for (std::string& text : texts) text = odd_text(random).substr(0, 100);
      edit.texts(object, name, texts);
      break;
    }
    case 5: {
      const std::vector<std::int64_t> values(1 + random.below(9), static_cast<std::int64_t>(random.below(50)));
      edit.attribute(object, name, H5T_NATIVE_INT64, values.data(), {values.size()});
      break;
    }
    case 6: {
      edit.remove_attribute(object, name);
      const Handle space = own(H5Screate(H5S_NULL)), target = edit.open(object);
      own(H5Acreate2(target.get(), name.c_str(), odd_type(random), space.get(), H5P_DEFAULT, H5P_DEFAULT));
      break;
    }
    case 7: {  // values that were never written
      edit.remove_attribute(object, name);
      const Handle space = own(H5Screate(H5S_SCALAR)), target = edit.open(object), type = odd_compound_type(random);
      own(H5Acreate2(target.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
      break;
    }
    case 8:  // a small step from a good value
      edit.integer(object, name, static_cast<std::int64_t>(random.below(50)));
      break;
  }
}

std::vector<hsize_t> extents_of(hid_t data) {
  const Handle space = own(H5Dget_space(data));
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  if (!extents.empty()) done(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr));
  return extents;
}

std::vector<hsize_t> odd_extents(std::vector<hsize_t> extents, RandomStream& random) {
  const auto at = [&] { return random.below(extents.size()); };
  const std::uint64_t kind = extents.empty() ? 3 : random.below(6);
  if (kind == 0) extents[at()] += 1;
  if (kind == 1) extents[at()] -= extents.back() > 0 ? 1 : 0;
  if (kind == 2) extents[at()] = 0;
  if (kind == 3) extents.push_back(1 + random.below(3));
  if (kind == 4) extents.erase(extents.begin() + static_cast<long>(at()));
  if (kind == 5) std::swap(extents[at()], extents[at()]);
  for (hsize_t& extent : extents) extent = std::min<hsize_t>(extent, 4096);
  return extents;
}

/// Layouts and filters of a new data set.
Handle odd_layout(const std::vector<hsize_t>& extents, std::size_t element_bytes, RandomStream& random) {
  Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  if (extents.empty()) return properties;
  switch (random.below(5)) {
    case 0:
      done(H5Pset_layout(properties.get(), H5D_COMPACT));
      return properties;
    case 1:
      return properties;
    default:
      break;
  }
  std::vector<hsize_t> chunk = extents;
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(1, random.below(3) == 0 ? 1 : random.below(extent + 2));
  done(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()));
  if (random.below(2) == 0) done(H5Pset_shuffle(properties.get()));
  if (random.below(2) == 0) done(H5Pset_deflate(properties.get(), 1 + static_cast<unsigned>(random.below(9))));
  if (random.below(4) == 0) done(H5Pset_fletcher32(properties.get()));
  if (random.below(12) == 0) done(H5Pset_scaleoffset(properties.get(), H5Z_SO_INT, 0));
  if (random.below(12) == 0) done(H5Pset_nbit(properties.get()));
  if (random.below(12) == 0) {
    const std::vector<std::byte> fill(element_bytes, std::byte{0x7f});
    done(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_ALLOC));
  }
  return properties;
}

std::vector<std::byte> values_of(hid_t data, hid_t type) {
  const Handle space = own(H5Dget_space(data));
  const hssize_t count = done(H5Sget_simple_extent_npoints(space.get()));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * H5Tget_size(type));
  done(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
  return bytes;
}

bool has_plain_values(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_INTEGER || kind == H5T_FLOAT;
}

/// The same data set with another shape, type or layout.
void replace_data(const Edit& edit, const std::string& object, RandomStream& random) {
  std::vector<hsize_t> extents;
  Handle type;
  std::vector<std::byte> values;
  {
    const Handle data = edit.open(object);
    extents = extents_of(data.get());
    type = own(H5Dget_type(data.get()));
    if (has_plain_values(type.get())) values = values_of(data.get(), type.get());
  }
  if (values.empty() || random.below(3) == 0) {
    type = random.below(2) == 0 ? own(H5Tcopy(odd_type(random))) : odd_compound_type(random);
    values.clear();
  }
  if (random.below(2) == 0) extents = odd_extents(extents, random);
  std::size_t bytes = H5Tget_size(type.get());
  for (const hsize_t extent : extents) bytes *= extent;
  if (bytes > (std::size_t{1} << 20)) return;
  values.resize(bytes);
  const Handle properties = odd_layout(extents, H5Tget_size(type.get()), random);
  const bool plain = has_plain_values(type.get()) || H5Tget_class(type.get()) == H5T_STRING;
  edit.dataset(object, type.get(), extents, plain && random.below(8) != 0 ? values.data() : nullptr, properties.get());
}

/// A shape that is claimed, in chunks of which none or one are there.
void claim_much(const Edit& edit, const std::string& object, RandomStream& random) {
  std::vector<hsize_t> extents;
  Handle type;
  {
    const Handle data = edit.open(object);
    extents = extents_of(data.get());
    type = own(H5Dget_type(data.get()));
  }
  if (extents.empty()) return;
  for (hsize_t& extent : extents)
    if (random.below(2) == 0) extent = any_of(random, kOddNumbers) >> random.below(40);
  const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  std::vector<hsize_t> chunk(extents.size(), 1);
  chunk.back() = 1 + random.below(64);
  done(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()));
  if (random.below(2) == 0) done(H5Pset_deflate(properties.get(), 1));
  edit.dataset(object, type.get(), extents, nullptr, properties.get());
}

/// Odd values in a data set of numbers: a few, or all.
void change_values(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle data = edit.open(object), type = own(H5Dget_type(data.get()));
  if (!has_plain_values(type.get())) return;
  const Handle space = own(H5Dget_space(data.get()));
  const auto count = static_cast<std::size_t>(done(H5Sget_simple_extent_npoints(space.get())));
  if (count == 0) return;
  if (H5Tget_class(type.get()) == H5T_FLOAT) {
    std::vector<double> values(count);
    done(H5Dread(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    for (std::uint64_t times = 1 + random.below(4); times > 0; --times) any_of(random, values) = odd_number(random);
    done(H5Dwrite(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  } else {
    std::vector<std::int64_t> values(count);
    done(H5Dread(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    for (std::uint64_t times = 1 + random.below(3); times > 0; --times)
      any_of(random, values) = random.below(2) == 0 ? static_cast<std::int64_t>(any_of(random, kOddNumbers))
                                                    : static_cast<std::int64_t>(random.below(60)) - 5;
    done(H5Dwrite(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }
}

/// Other bytes in the first chunk, as they are stored.
void change_chunk(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle data = edit.open(object), properties = own(H5Dget_create_plist(data.get()));
  if (H5Pget_layout(properties.get()) != H5D_CHUNKED) return;
  const std::vector<hsize_t> first(extents_of(data.get()).size(), 0);
  hsize_t stored = 0;
  done(H5Dget_chunk_storage_size(data.get(), first.data(), &stored));
  if (stored == 0 || stored > (1 << 20)) return;
  std::string bytes(stored, '\0');
  std::uint32_t mask = 0;
  done(H5Dread_chunk(data.get(), H5P_DEFAULT, first.data(), &mask, bytes.data()));
  damage_bytes(bytes, random);
  if (random.below(4) == 0) mask = static_cast<std::uint32_t>(random.below(8));
  if (random.below(8) == 0) bytes.append(random.below(100), 'x');
  if (bytes.empty()) return;
  done(H5Dwrite_chunk(data.get(), H5P_DEFAULT, mask, first.data(), bytes.size(), bytes.data()));
}

void replace_by_far_values(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  std::vector<hsize_t> extents;
  Handle type;
  {
    const Handle data = edit.open(object);
    extents = extents_of(data.get());
    type = own(H5Dget_type(data.get()));
  }
  if (extents.empty()) return;
  const Handle space = own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  if (random.below(2) == 0)
    done(H5Pset_external(properties.get(), "/etc/hostname", 0, H5F_UNLIMITED));
  else
    done(H5Pset_virtual(properties.get(), space.get(), random.below(2) == 0 ? "." : "/dev/zero", "/x", space.get()));
  edit.dataset(object, type.get(), extents, nullptr, properties.get());
}

/// One path segment that is hardly a name, without '/'.
std::string odd_name(RandomStream& random) {
  std::string name = odd_text(random).substr(0, 60'000);
  std::erase(name, '/');
  return name.empty() || name == "." ? std::to_string(random.below(9)) : name;
}

void change_link(const Edit& edit, const Object& object, const std::vector<Object>& all, RandomStream& random) {
  if (object.path == "/") return;
  const std::string parent = object.path.substr(0, object.path.rfind('/') + 1), other = any_of(random, all).path;
  const std::string at = random.below(2) == 0 ? object.path : parent + odd_name(random);
  const auto free_place = [&] {
    if (at == object.path) edit.remove(at);
  };
  switch (random.below(7)) {
    case 0:
      edit.remove(object.path);
      break;
    case 1:
      free_place();
      edit.soft_link(random.below(3) == 0 ? at : other, at);
      break;
    case 2:
      free_place();
      done(H5Lcreate_hard(edit.file(), other.c_str(), edit.file(), at.c_str(), H5P_DEFAULT, H5P_DEFAULT));
      break;
    case 3:
      free_place();
      edit.external_link(random.below(2) == 0 ? "/etc/hostname" : "other.h5", other, at);
      break;
    case 4:
      done(H5Lmove(edit.file(), object.path.c_str(), edit.file(), (parent + odd_name(random)).c_str(), H5P_DEFAULT,
                   H5P_DEFAULT));
      break;
    case 5:
      free_place();
      edit.group(at);
      break;
    case 6:
      done(H5Ocopy(edit.file(), other.c_str(), edit.file(), (parent + odd_name(random)).c_str(), H5P_DEFAULT,
                   H5P_DEFAULT));
      break;
  }
}

void change_once(const std::string& path, RandomStream& random) {
  const Edit edit(path);
  const std::vector<Object> objects = objects_of(edit);
  const Object& object = any_of(random, objects);
  const std::uint64_t kind = random.below(12);
  if (kind < 3 || (!object.is_data && kind < 8)) return change_attribute(edit, object.path, random);
  if (!object.is_data || kind >= 10) return change_link(edit, object, objects, random);
  switch (kind) {
    case 3:
    case 4:
      return replace_data(edit, object.path, random);
    case 5:
      return claim_much(edit, object.path, random);
    case 6:
    case 7:
      return change_values(edit, object.path, random);
    case 8:
      return change_chunk(edit, object.path, random);
    default:
      return replace_by_far_values(edit, object.path, random);
  }
}

}  // namespace

void change_hdf5(const std::string& path, RandomStream& random) {
  for (std::uint64_t times = 1 + random.below(3); times > 0; --times) {
    try {
      change_once(path, random);
    } catch (const std::runtime_error&) {  // a change that HDF5 does not make: what it has done of it stays
      hdf5::take_error_text();
    }
  }
}

std::string mutated_hdf5(const std::string& path, const std::string& seed, RandomStream& random) {
  std::ofstream(path, std::ios::binary).write(seed.data(), static_cast<std::streamsize>(seed.size()));
  const std::uint64_t kind = random.below(10);
  if (kind < 7) change_hdf5(path, random);
  std::string bytes = bytes_of_file(path);
  if (kind >= 6) damage_bytes(bytes, random);
  return bytes;
}

}  // namespace attest::fuzz
