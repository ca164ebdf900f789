"""When a file was made."""
import datetime
import os
import time

from .errors import UsageError
from .files import in_quotes


def utc_now():
    """SOURCE_DATE_EPOCH, where it is set, makes the files of two runs the same bytes."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.datetime.fromtimestamp(float(given or time.time()), datetime.timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"SOURCE_DATE_EPOCH: expected seconds since 1970, found {in_quotes(given)}") from error
    return moment.isoformat(timespec="seconds")
