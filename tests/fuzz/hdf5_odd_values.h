// Types and numbers that a file from a careless or hostile writer may hold.
#pragma once

#include <cmath>

#include "tests/dumps/hdf5_edit.h"
#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

inline hid_t odd_type(RandomStream& random) {
  const hid_t types[]{H5T_IEEE_F64LE, H5T_IEEE_F32LE,  H5T_IEEE_F32BE, H5T_STD_I64LE, H5T_STD_U64LE,
                      H5T_STD_I32LE,  H5T_STD_U16LE,   H5T_STD_I16BE,  H5T_STD_U8LE,  H5T_STD_I8LE,
                      H5T_C_S1,       H5T_STD_REF_OBJ, H5T_STD_B8LE};
  return any_of(random, types);
}

/// Owned types that are more than a name: of the same family as those of a dump, or far from them.
inline test::Handle odd_compound_type(RandomStream& random) {
  const hsize_t two = 2;
  switch (random.below(5)) {
    case 0:
      return test::float_type(5, 10, 15);
    case 1:
      return test::float_type(8, 7, 127);
    case 2:
      return test::own(H5Tarray_create2(H5T_IEEE_F32LE, 1, &two));
    case 3:
      return test::own(H5Tvlen_create(H5T_IEEE_F32LE));
    default: {
      test::Handle type = test::own(H5Tcreate(H5T_COMPOUND, 16));
      test::done(H5Tinsert(type.get(), "a", 0, H5T_IEEE_F64LE));
      test::done(H5Tinsert(type.get(), "b", 8, H5T_STD_I64LE));
      return type;
    }
  }
}

inline double odd_number(RandomStream& random) {
  constexpr double kNumbers[]{0,  -0.0,   1,     -1,    0.5, 128.5,    1e-320,   1e39,
                              -5, 3.3e38, 65504, 1e300, NAN, HUGE_VAL, -HUGE_VAL};
  return any_of(random, kNumbers);
}

}  // namespace attest::fuzz
