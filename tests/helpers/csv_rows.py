"""Tables that the program writes."""
import csv

NUMBER = 2e-6  # tolerance: float32 cells, ten digits in the csv


def read_csv(path):
    """Its rows, by the names of the columns."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
