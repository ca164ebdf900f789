"""Numbers that must be near others."""
import numpy as np

FLOAT32 = 1e-5  # relative: float32 cells of sums of a few hundred numbers in double
CELL = 1e-6  # of float32 cells between 0 and 1, or their mean
DOUBLE = 1e-12  # doubles, summed in another order
CLOSE = 1e-9  # doubles that powers or logarithms gave
MODEL = 1e-4  # absolute: what a model of a few layers computes in float32, of numbers around 1


def assert_near(found, expected, rel=0.0, abs=0.0, what=""):
    """|found - expected| <= abs + rel |expected| everywhere. NaN and infinities fail, and so do
    no numbers and other shapes than that of `expected`, unless it is one number."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if not expected.ndim:
        expected = np.full(found.shape, expected)
    assert found.shape == expected.shape and found.size, (what, found.shape, expected.shape)
    finite = np.isfinite(found) & np.isfinite(expected) & np.isfinite(abs)
    wrong = ~(finite & (np.abs(found - expected) <= abs + rel * np.abs(expected)))
    assert not wrong.any(), (what, wrong.sum(), found[wrong][:5], expected[wrong][:5])
