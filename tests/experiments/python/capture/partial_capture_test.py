"""The folder of an unfinished capture."""
from attest.capture.partial import PartialCapture
from attest.capture.record import provenance


def test_a_capture_whose_command_is_no_utf8_goes_on(tmp_path):
    record = {"source": provenance("attest capture", ["m", "-o", "\udcff.h5"], "torch")}
    with PartialCapture(tmp_path / "\udcff.h5", True, False) as partial:
        assert partial.begin({}, record) == partial.begin({}, record) == \
            {"source": "attest capture m -o '?.h5' (torch)"}
