"""A dump holds layers of one kind."""
from ..base.errors import InputError


def refuse_other_kinds(where, found, before, whose, advice=""):
    """Refuses attributes `found` that are not those of the layers or prompts (`whose`) before them."""
    for name in {**before, **found}:
        if found.get(name) != before.get(name):
            raise InputError(f"{where}: its {name} is {found.get(name)}, that of the {whose} before "
                             f"{before.get(name)}, and a dump holds layers of one kind{advice}")
