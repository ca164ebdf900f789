// Rows of a workspace matrix: aligned, reused, and whole after a move.
#include "kernels/base/row_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace attest {
namespace {

void fill(RowMatrix<double>& matrix, double first) {
  for (std::int64_t r = 0; r < matrix.rows(); ++r)
    std::ranges::fill(matrix.row(r, matrix.columns()), first + static_cast<double>(r));
}

void expect_filled(const RowMatrix<double>& matrix, double first) {
  for (std::int64_t r = 0; r < matrix.rows(); ++r)
    for (const double x : matrix.row(r, matrix.columns())) EXPECT_EQ(x, first + static_cast<double>(r));
}

TEST(RowMatrix, RowsAreAlignedAndDoNotOverlap) {
  RowMatrix<double> matrix;
  EXPECT_TRUE(matrix.empty());
  matrix.resize(3, 9);
  EXPECT_EQ(matrix.stride(), 16);
  for (std::int64_t r = 0; r < 3; ++r) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.row(r)) % 64, 0u);
  fill(matrix, 1);
  expect_filled(matrix, 1);
}

TEST(RowMatrix, ReusesItsMemory) {
  RowMatrix<double> matrix;
  matrix.resize(4, 16);
  const double* const memory = matrix.row(0);
  matrix.resize(2, 31);
  EXPECT_EQ(matrix.row(0), memory);
  fill(matrix, 5);
  expect_filled(matrix, 5);
}

TEST(RowMatrix, CanBeResizedAfterItWasMovedFrom) {
  RowMatrix<double> first;
  first.resize(4, 16);
  fill(first, 1);
  RowMatrix<double> second(std::move(first));
  EXPECT_TRUE(first.empty());
  first.resize(2, 3);
  ASSERT_NE(first.row(0), nullptr);
  fill(first, 7);
  expect_filled(second, 1);
  first = std::move(second);
  expect_filled(first, 1);
  EXPECT_EQ(first.rows(), 4);
  second.resize(1, 1);
  ASSERT_NE(second.row(0), nullptr);
}

}  // namespace
}  // namespace attest
