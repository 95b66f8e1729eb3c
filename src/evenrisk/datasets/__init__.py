"""Two small data sets, shipped with the package: nothing is downloaded.

Each has a data card (`Dataset.description`) that says where the data come from, what is wrong with them and
what they must not be used for.

Conventions: `frame` is the shipped table for the chosen rows; X, y and sensitive_features are made from it
alone and share its RangeIndex. pandas is imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "load_adult", "load_compas"]

# subset of COMPAS → (ProPublica's filter?, the two largest races only?)
_COMPAS_SUBSETS = {
    "two_races": (True, True),
    "two_races_unfiltered": (False, True),
    "all_races": (True, False),
    "all_races_unfiltered": (False, False),
}
_TWO_RACES = ("African-American", "Caucasian")

_ADULT_NUMERIC = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
_ADULT_CATEGORICAL = ["workclass", "marital_status", "occupation", "relationship", "race", "native_country"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table of people, ready to fit; unpacks as ``X, y, sensitive_features``.

    Attributes
    ----------
    X : pandas.DataFrame
        The features, without the sensitive one.
    y : pandas.Series
        The outcome, 0 or 1.
    sensitive_features : pandas.Series
        The group of each row, as a string.
    frame : pandas.DataFrame
        All shipped columns of the same rows, as they came.
    description : str
        The data card: origin, columns, licence, known problems, what the data must not be used for.

    Examples
    --------
    >>> from evenrisk.datasets import load_compas
    >>> data = load_compas()
    >>> data
    Dataset(X: 5278 × 4, y: two_year_recid, 47.0% are 1, race: African-American 3175, Caucasian 2103)
    >>> X, y, A = data
    """

    X: pd.DataFrame
    y: pd.Series[int]
    sensitive_features: pd.Series[str]
    frame: pd.DataFrame
    description: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.sensitive_features))

    def __repr__(self) -> str:
        n, d = self.X.shape
        groups = ", ".join(f"{name} {size}" for name, size in self.sensitive_features.value_counts().items())
        return (
            f"Dataset(X: {n} × {d}, y: {self.y.name}, {self.y.mean():.1%} are 1, "
            f"{self.sensitive_features.name}: {groups})"
        )


def load_compas(subset: str = "two_races") -> Dataset:
    """Two-year recidivism of defendants in Broward County, Florida, as collected by ProPublica.

    Parameters
    ----------
    subset : {"two_races", "two_races_unfiltered", "all_races", "all_races_unfiltered"}
        Which rows: 5278, 6150, 6172 or 7214 of them. The filter is ProPublica's: screened within 30 days of
        the arrest, a known outcome, no ordinary traffic offence, a COMPAS score present. The two races are
        African-American and Caucasian.

    Returns
    -------
    Dataset
        X has `age`, `priors_count`, `sex_male` and `charge_felony`; y is `two_year_recid`; the sensitive
        feature is `race`. `frame` also holds COMPAS's own score (`decile_score`).

    Examples
    --------
    >>> from evenrisk.datasets import load_compas
    >>> X, y, A = load_compas()
    >>> list(X.columns)
    ['age', 'priors_count', 'sex_male', 'charge_felony']
    >>> y.groupby(A).mean().round(3).to_dict()
    {'African-American': 0.523, 'Caucasian': 0.391}
    """
    import pandas as pd

    if subset not in _COMPAS_SUBSETS:
        raise ValueError(f"`subset` must be one of {list(_COMPAS_SUBSETS)}, got {subset!r}")
    filtered, two_races = _COMPAS_SUBSETS[subset]
    frame = _read("compas")
    if filtered:
        frame = frame[_propublica_filter(frame)]
    if two_races:
        frame = frame[frame["race"].isin(_TWO_RACES)]
    frame = frame.reset_index(drop=True)
    X = pd.DataFrame(
        {
            "age": frame["age"].astype("float64"),
            "priors_count": frame["priors_count"].astype("float64"),
            "sex_male": (frame["sex"] == "Male").astype("int64"),
            "charge_felony": (frame["c_charge_degree"] == "F").astype("int64"),
        }
    )
    return Dataset(X, frame["two_year_recid"].copy(), frame["race"].copy(), frame, _card("compas"))


def load_adult(*, one_hot: bool = False) -> Dataset:
    """Income above 50,000 dollars a year in the 1994 census extract known as UCI Adult; 48,842 rows.

    The 32,561 rows of the original training part come first, then the 16,281 of the test part;
    ``frame["part"]`` says which is which. Unknown values are the level "?", not missing.

    Parameters
    ----------
    one_hot : bool, default False
        False: numbers are float64 and the rest pandas categoricals. True: every level becomes a float64
        column of 0 and 1, such as ``workclass=Private``, after the numeric columns; no level is dropped.

    Returns
    -------
    Dataset
        X has every feature but `sex`, `fnlwgt` (a survey weight) and `education` (`education_num` in words);
        y is 1 where `income` is ">50K"; the sensitive feature is `sex`.

    Examples
    --------
    >>> from evenrisk.datasets import load_adult
    >>> X, y, A = load_adult(one_hot=True)
    >>> X.shape
    (48842, 89)
    >>> y.groupby(A).mean().round(3).to_dict()
    {'Female': 0.109, 'Male': 0.304}
    """
    import pandas as pd

    frame = _read("adult")
    features = [c for c in frame.columns if c in _ADULT_NUMERIC or c in _ADULT_CATEGORICAL]
    dtypes = dict.fromkeys(_ADULT_NUMERIC, "float64") | dict.fromkeys(_ADULT_CATEGORICAL, "category")
    X = frame[features].astype(dtypes)
    if one_hot:
        X = pd.get_dummies(X, columns=_ADULT_CATEGORICAL, prefix_sep="=", dtype="float64")
    y = (frame["income"] == ">50K").astype("int64")
    return Dataset(X, y, frame["sex"].copy(), frame, _card("adult"))


def _propublica_filter(frame: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows ProPublica kept. In the published file only the first condition excludes anyone."""
    return (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & ~frame["score_text"].isin(["", "N/A"])
    )


def _read(name: str) -> pd.DataFrame:
    """Return a shipped table. Only an empty `days_b_screening_arrest` is missing: "?" and "N/A" stay text."""
    import gzip
    import io

    import pandas as pd

    # unpacked first: Ctrl-C while pandas calls gzip's reader would come out as a damaged file
    packed = files("evenrisk.datasets").joinpath(f"data/{name}.csv.gz").read_bytes()
    missing = {"days_b_screening_arrest": [""]}
    return pd.read_csv(io.BytesIO(gzip.decompress(packed)), keep_default_na=False, na_values=missing)


def _card(name: str) -> str:
    """Return the data card that lies beside a shipped table."""
    return files("evenrisk.datasets").joinpath(f"data/{name}.md").read_text(encoding="utf-8")
