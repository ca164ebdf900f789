"""Numbers that must be near others."""
import numpy as np

FLOAT32 = 1e-5  # relative: float32 cells of sums of a few hundred numbers in double
DOUBLE = 1e-12  # relative: doubles, summed in another order


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
