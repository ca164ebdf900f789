"""The folder NAME.partial of an unfinished capture (base/partial_folder.py)."""
from ..base.partial_folder import PartialFolder


class PartialCapture(PartialFolder):
    """With dump-N.h5, the dump of prompt N alone. attest-vllm has prompt-N.h5 or, of each rank, prompt-N.rank-P-T.h5
    instead, and .refused with what the plugin refused: --force of either command removes the files of both."""
    begun, what, finished_prefix = "capture.json", "an unfinished capture", ("dump-", "prompt-")
    files = r"dump-\d+\.h5|prompt-\d+(?:\.rank-\d+-\d+)?\.h5|(?:prompt-\d+|engine)\.refused"
