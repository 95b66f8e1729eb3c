"""Join the training and the test file of UCI Adult into one clean table, training rows first."""

from collections.abc import Iterator

import _registry

SOURCE = _registry.Source(
    requirement="aif360==0.2.3",
    members={
        "aif360/data/raw/adult/adult.data": (
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
        ),
        "aif360/data/raw/adult/adult.test": (
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
        ),
    },
)

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
    "part",
)


def parse(raw: bytes, part: str) -> Iterator[list[str]]:
    """Rows of one raw file: no padding, no comment or blank line, no full stop after the label; '?' stays."""
    for line in raw.decode("ascii").splitlines():
        # The test file opens with the comment "|1x3 Cross validator"; both files close with a blank line.
        if not line.strip() or line.startswith("|"):
            continue
        *features, income = (field.strip() for field in line.split(","))
        row = [*features, income.removesuffix("."), part]
        if len(row) != len(COLUMNS):
            raise ValueError(f"a row must have {len(COLUMNS) - 1} fields, got {len(row) - 1}: {line!r}")
        yield row


def extract(train: bytes, test: bytes) -> str:
    """The shipped table, as text."""
    return _registry.to_csv(COLUMNS, [*parse(train, "train"), *parse(test, "test")])


if __name__ == "__main__":
    _registry.run(SOURCE, extract, "adult.csv.gz")
