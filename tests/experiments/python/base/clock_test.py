"""Files say when they were made; SOURCE_DATE_EPOCH may say it."""
import datetime

from attest.base.clock import utc_now


def test_the_time_is_now_or_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs(datetime.datetime.fromisoformat(utc_now()) - now) < datetime.timedelta(seconds=60)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert utc_now() == "2023-11-14T22:13:20+00:00"
