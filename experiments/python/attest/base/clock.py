"""When a file was made."""
import datetime
import os
import time


def utc_now():
    """SOURCE_DATE_EPOCH, where it is set, makes the files of two runs the same bytes."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
