"""Tables that the program writes."""
import csv


def read_csv(path):
    """Its rows, by the names of the columns."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
