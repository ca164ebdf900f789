"""The folder NAME.partial of unfinished outcomes (base/partial_folder.py); with tasks.json, and prompt-N.json, the
outcomes of prompt N, renamed into place. A damaged one is made again; with --dump, dump-N.h5 is there before it."""
from ..base.atomic_text import atomic_text
from ..base.errors import InputError
from ..base.partial_folder import PartialFolder, read_small_text
from .prompt import PromptOutcomes


class PartialOutcomes(PartialFolder):
    begun, what, finished_prefix = "tasks.json", "unfinished outcomes", "prompt-"
    files = r"prompt-\d+\.json|dump-\d+\.h5"

    def finished(self, number, name, num_runs, with_dump):
        """The outcomes of a prompt, or None if it is to be answered."""
        try:
            found = PromptOutcomes.from_json(read_small_text(self.folder / f"prompt-{number}.json"))
        except (InputError, ValueError, TypeError, KeyError, RecursionError):
            return None
        whole = found.name == name and len(found.outcomes) == num_runs
        return found if whole and (not with_dump or self.dump_path(number).exists()) else None

    def store(self, number, outcomes):
        """Appears whole, by rename: a prompt is finished or it is not."""
        with atomic_text(self.folder / f"prompt-{number}.json") as file:
            file.write(outcomes.to_json())
