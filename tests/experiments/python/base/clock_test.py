"""Files say when they were made; SOURCE_DATE_EPOCH may say it."""
import datetime

import pytest

from attest.base.clock import utc_now
from attest.base.errors import UsageError


def test_the_time_is_now_or_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs(datetime.datetime.fromisoformat(utc_now()) - now) < datetime.timedelta(seconds=60)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert utc_now() == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("text", ["today", "nan", "1e300"])
def test_what_is_no_time_is_refused(monkeypatch, text):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError, match=f"^SOURCE_DATE_EPOCH: expected seconds since 1970, found '{text}'$"):
        utc_now()
