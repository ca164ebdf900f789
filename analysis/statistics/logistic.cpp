// Newton's method with step halving.
#include "analysis/statistics/logistic.h"

#include <Eigen/Cholesky>
#include <cmath>

namespace attest {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// log(1 + exp(x))
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double loss_of(const Vector& logits, const Vector& failed, const Vector& weights, double ridge) {
  double loss = ridge / 2 * weights.tail(weights.size() - 1).squaredNorm();
  for (Eigen::Index i = 0; i < logits.size(); ++i) loss += softplus(logits[i]) - failed[i] * logits[i];
  return loss;
}

}  // namespace

double LogisticModel::probability(std::span<const double> features) const {
  double logit = intercept;
  for (std::size_t f = 0; f < weights.size(); ++f) logit += weights[f] * (features[f] - means[f]) / scales[f];
  return sigmoid(logit);
}

LogisticModel fit_logistic(std::span<const double> features, std::size_t count, std::span<const std::uint8_t> failed,
                           double ridge) {
  const auto rows = static_cast<Eigen::Index>(failed.size()), columns = static_cast<Eigen::Index>(count);
  LogisticModel model;
  Matrix design(rows, columns + 1);  // the first column is the intercept's
  design.col(0).setOnes();
  const Eigen::Map<const Matrix> given(features.data(), rows, columns);
  for (Eigen::Index c = 0; c < columns; ++c) {
    const double mean = given.col(c).mean();
    const double deviation = std::sqrt((given.col(c).array() - mean).square().mean());
    model.means.push_back(mean);
    model.scales.push_back(deviation > 0 ? deviation : 1);
    design.col(c + 1) = (given.col(c).array() - mean) / model.scales.back();
  }
  Vector target(rows), penalty = Vector::Constant(columns + 1, ridge), weights = Vector::Zero(columns + 1);
  for (Eigen::Index i = 0; i < rows; ++i) target[i] = failed[static_cast<std::size_t>(i)] != 0 ? 1 : 0;
  penalty[0] = 0;
  constexpr int kMaxSteps = 200;
  constexpr double kEnough = 1e-10;
  double loss = loss_of(design * weights, target, weights, ridge);
  for (int step = 0; step < kMaxSteps; ++step) {
    const Vector chance = (design * weights).unaryExpr(&sigmoid);
    const Vector gradient = design.transpose() * (chance - target) + penalty.cwiseProduct(weights);
    const Vector variance = chance.array() * (1 - chance.array());
    Matrix curvature = design.transpose() * variance.asDiagonal() * design;
    curvature.diagonal() += penalty;
    curvature(0, 0) += 1e-12;  // chances of 0 or 1 everywhere have no curvature
    const Vector direction = curvature.ldlt().solve(gradient);
    double size = 1, next = loss;
    for (; size > 1e-12; size /= 2) {
      next = loss_of(design * (weights - size * direction), target, weights - size * direction, ridge);
      if (next <= loss) break;
    }
    if (!(next <= loss)) break;
    weights -= size * direction;
    const double gained = loss - next;
    loss = next;
    if (gained <= kEnough * (1 + loss) && gradient.lpNorm<Eigen::Infinity>() <= 1e-6) break;
  }
  model.intercept = weights[0];
  for (Eigen::Index c = 0; c < columns; ++c) model.weights.push_back(weights[c + 1]);
  return model;
}

}  // namespace attest
