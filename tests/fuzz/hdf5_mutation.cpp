// Mutation of HDF5 files: attributes, links, and which of all changes is made.
#include "tests/fuzz/hdf5_mutation.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/hdf5_data_mutation.h"
#include "tests/fuzz/hdf5_odd_values.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

using test::done;
using test::Edit;
using test::Handle;
using test::own;

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
  std::filesystem::remove(path);  // else HDF5 goes on with the file before, if a failed change has left it open
  std::ofstream(path, std::ios::binary).write(seed.data(), static_cast<std::streamsize>(seed.size()));
  const std::uint64_t kind = random.below(10);
  if (kind < 7) change_hdf5(path, random);
  std::string bytes = bytes_of_file(path);
  if (kind >= 6) damage_bytes(bytes, random);
  return bytes;
}

}  // namespace attest::fuzz
