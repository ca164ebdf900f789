"""The runs of a prompt: dense first, then every selector at every setting."""
import math
from dataclasses import dataclass

DENSE = "dense"
EVERYTHING = 1e15  # tokens: the largest budget. As a share, 100 % would be 1, which is one token


@dataclass(frozen=True)
class Run:
    label: str
    selector: str  # its name
    text: str  # NAME[:option=value,...]
    options: str  # JSON of every option with its value
    setting_kind: str
    value: float
    percent: bool
    typed: str  # the setting as typed

    @property
    def is_dense(self):
        """Whether it is the run that the others are compared with."""
        return self.label == DENSE

    def name(self):
        """For messages and tables."""
        return f"{self.label} {self.typed}".rstrip()

    def operator_setting(self):
        """The setting as torch.ops.attest.attend takes it: a budget below 1 is a share."""
        if self.percent:
            return self.value / 100 if self.value < 100 else EVERYTHING
        return self.value


def runs_of(selectors):
    """`selectors`: the list that experiments/commands/tasks.cpp makes."""
    runs = [Run(DENSE, "exact", "exact", "{}", "none", 0.0, False, "")]
    for selector in selectors:
        for value, percent, typed in selector["settings"]:
            runs.append(Run(selector["label"], selector["selector"], selector["text"], selector["options"],
                            selector["setting_kind"], math.inf if value == "inf" else float(value), percent, typed))
    return runs
