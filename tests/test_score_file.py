"""The table an audit reads: the same from every format; a bad file is refused in words."""

import gzip
import io
import os
import re
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenrisk._score_file import TableError, _columns, _formats, read_table
from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import threshold_profile

SCORES = {"risk": [0.5, -1.25, 3.0, 3e-2, 7.0], "decile": [1.0, 10.0, 2.0, 2.0, 9.0]}
RACE = ["Asian", "NA", 'b, "é"', "null", "Asian"]
SEX = ["1", "0", "1", "1", "0"]
LATE = ["no", "yes", "no", "yes", "yes"]
WEIGHT = [1.0, 0.0, 2.5, 1.0, 4.0]
CSV = '''id,risk,race,decile,sex,late,w
1,0.5,Asian,1,1,no,1
2,-1.25,NA,10,0,yes,0
3, 3 ,"b, ""é""",2.0,1,no,2.5
4,3e-2,null,2,1,yes,1
5,+7.,Asian ,9,0,yes,4
'''
ASKED = {
    "scores": ["decile", "risk"],
    "groups": ["sex", "race"],
    "label": "late",
    "positive": None,
    "weight": "w",
}


def packed(data):
    return gzip.compress(data, mtime=0)


def short(value):
    """Name a test by the beginning of its data."""
    return repr(value)[:24]


def parquet(*, bare=False, **columns):
    """A Parquet file; bare: without the note of how Arrow held its columns."""
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=2, store_schema=not bare)
    return out.getvalue()


PARQUET = {
    "risk": SCORES["risk"],
    "race": RACE,
    "decile": pa.array([1, 10, 2, 2, 9], pa.int8()),
    "sex": pa.array([1.0, 0.0, 1.0, 1.0, 0.0]),
    "late": pa.array(LATE).dictionary_encode(),
    "w": pa.array([Decimal(str(w)) for w in WEIGHT]),
}
GOOD = {
    "comma": CSV.encode(),
    "no last line end": CSV.rstrip("\n").encode(),
    "crlf": CSV.replace("\n", "\r\n").encode(),
    "cr": CSV.replace("\n", "\r").encode(),
    "bom": b"\xef\xbb\xbf" + CSV.encode(),
    "blank lines": ("\n\n" + CSV.replace("\n", "\n\n")).encode(),
    "semicolon": CSV.replace(",", ";").replace('"b; ', '"b, ').encode(),
    "tab": CSV.replace(",", "\t").replace('"b\t ', '"b, ').encode(),
    "quoted header": ('"id, or name"' + CSV.replace(",", ";").replace('"b; ', '"b, ')[2:]).encode(),
    "spaces in the header": CSV.replace(",race", ", race ").encode(),
    "a name twice, not asked for": CSV.replace("id,", "id,id,").replace("\n", "\n0,")[:-2].encode(),
    "latin-1 in a column not asked for": CSV.replace("5,+7", "Z\xfc,+7")
    .encode("latin-1")
    .replace(b"\xe9", "é".encode()),
    "gzip": packed(CSV.encode()),
    "gzip in parts": packed(CSV[:50].encode()) + packed(CSV[50:].encode()),
    "parquet": parquet(**PARQUET),
    "gzipped parquet": packed(parquet(**PARQUET)),
    "parquet of text": parquet(**{**PARQUET, "sex": SEX, "w": [str(w) for w in WEIGHT]}),
    "parquet of bytes": parquet(bare=True, **{**PARQUET, "race": [race.encode() for race in RACE]}),
}


def read(data, tmp_path, name="table", **asked):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_table(str(path), **{"scores": ["s"], "groups": ["g"], **asked})


def refused(message):
    """The whole message, word for word; … stands for anything."""
    return pytest.raises(TableError, match="(?s)^" + re.escape(message).replace("…", ".*") + "$")


def refused_rows(what, row, count, n, more=""):
    return refused(f"…: {what} in data row {row} ({count} of {n} rows; the first data row is 1){more}")


def check_good(table):
    assert list(table.scores) == ["decile", "risk"]
    for name, score in table.scores.items():
        assert score.dtype == np.float64
        assert score.tolist() == SCORES[name]
    assert list(table.groups) == ["sex", "race"]
    assert table.groups["race"].astype(object).tolist() == RACE
    assert table.groups["sex"].astype(object).tolist() == SEX
    assert all(isinstance(kind, pd.CategoricalDtype) for kind in table.groups.dtypes)
    assert table.label.dtype == bool
    assert table.label.tolist() == [late == "yes" for late in LATE]
    assert table.label_words == ("no", "yes")
    assert table.weight.tolist() == WEIGHT
    assert table.n == 5


# Good files


@pytest.mark.parametrize("kind", GOOD)
def test_every_format_gives_the_same_table(kind, tmp_path):
    check_good(read(GOOD[kind], tmp_path, **ASKED))


@pytest.mark.parametrize("kind", ["comma", "gzip", "parquet"])
def test_standard_input(kind, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD[kind])))
    check_good(read_table("-", **ASKED))


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no pipes with a name here")
def test_a_pipe_given_as_a_file():
    out, into = os.pipe()
    os.write(into, GOOD["parquet"])
    os.close(into)
    check_good(read_table(f"/dev/fd/{out}", **ASKED))
    os.close(out)


def test_what_is_not_asked_for_is_none(tmp_path):
    table = read("s,g\n1,a\n2,b\n", tmp_path)
    assert (table.label, table.label_words, table.weight, table.n) == (None, None, None, 2)
    assert table.outcomes("y") is None


def test_one_column_in_two_roles(tmp_path):
    table = read("s,y\n1,0\n2,1\n", tmp_path, groups=["s"], label="y")
    assert table.scores["s"].tolist() == [1, 2]
    assert table.groups["s"].tolist() == ["1", "2"]


def test_many_blocks_and_long_text(tmp_path):
    """Dictionaries differ from block to block, and a text may have line ends in it."""
    text = '"first\nsecond, line"'
    rows = [f"{i},group {i * 7 // 300_000},{text}" for i in range(300_000)]
    table = read("s,g,text\n" + "\n".join(rows), tmp_path)
    assert (tmp_path / "table").stat().st_size > 2 * (4 << 20)
    assert np.array_equal(table.scores["s"], np.arange(300_000))
    assert table.groups["g"].tolist() == [f"group {i * 7 // 300_000}" for i in range(300_000)]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["1.0", "0.0", "2.5"], ["1", "0", "2.5"]),
        (["02139", "1.0", "2"], ["02139", "1.0", "2"]),
        (["1.0", "1", "x"], ["1.0", "1", "x"]),
        (["NA", "None", "nan"], ["NA", "None", "nan"]),
        ([" a", "a ", "a"], ["a", "a", "a"]),
        (['"a\nb"', '"é;,"', "x\0"], ["a\nb", "é;,", "x\0"]),
    ],
)
def test_names_in_a_csv(values, names, tmp_path):
    table = read("s,g\n" + "".join(f"1,{value}\n" for value in values), tmp_path)
    assert table.groups["g"].tolist() == names


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_that_name_groups_keep_their_order_in_an_audit(kind, tmp_path):
    decades = [10, 2, 1, 2] * 20
    data = "s,g\n" + "".join(f"{i},{g}\n" for i, g in enumerate(decades))
    table = read(data if kind == "csv" else parquet(s=list(range(80)), g=decades), tmp_path)
    with pytest.warns(SmallCellWarning):
        profile = threshold_profile(None, table.scores["s"], sensitive_features=table.groups)
    assert profile.groups == ("1", "2", "10")
    assert profile.rates_at(-1).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([1, 20], pa.uint8()), ["1", "20"]),
        ([1.0, 2.5], ["1", "2.5"]),
        ([True, False], ["True", "False"]),
        ([Decimal("1.00"), Decimal("1.25")], ["1", "1.25"]),
        ([1e300, -0.0], ["1e+300", "0"]),
        (pa.array([7, 8], pa.int16()).dictionary_encode(), ["7", "8"]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
    ],
)
def test_names_in_parquet(values, names, tmp_path):
    assert read(parquet(s=[1, 2], g=values), tmp_path).groups["g"].tolist() == names


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([True, False], [1, 0]),
        (pa.array([1, 2**63], pa.uint64()), [1, 2**63]),
        (np.array([0.5, 2], np.float16), [0.5, 2]),
        ([Decimal("1.25"), Decimal("-3")], [1.25, -3]),
        (["1e3", " .5 "], [1000, 0.5]),
        (pa.array([4.0, 5.0]).dictionary_encode(), [4, 5]),
    ],
)
def test_scores_in_parquet(values, numbers, tmp_path):
    score = read(parquet(s=values, g=["a", "b"]), tmp_path).scores["s"]
    assert score.dtype == (np.float16 if isinstance(values, np.ndarray) else np.float64)
    assert score.tolist() == numbers


def test_single_precision_stays_single(tmp_path):
    single = pa.array([0.2, 0.7], pa.float32())
    for column in (single, single.dictionary_encode()):
        table = read(parquet(s=column, g=["a", "b"]), tmp_path, weight="s")
        assert table.scores["s"].dtype == np.float32  # so that a cut-off of 0.2 is read as one
        assert str(table.scores["s"]) == "[0.2 0.7]"
        assert table.weight.dtype == np.float64


LARGE = [2**60 + i for i in range(9)]


@pytest.mark.parametrize(
    "data",
    [
        "s,g\n" + "".join(f"{number},a\n" for number in LARGE),
        "s,g\n" + "".join(f" +{number}.0 ,a\n" for number in LARGE),
        parquet(s=LARGE, g=["a"] * 9),
        parquet(s=pa.array([2**63 + i for i in range(9)], pa.uint64()), g=["a"] * 9),
        parquet(s=[Decimal(number) for number in LARGE], g=["a"] * 9),
        parquet(s=[str(number) for number in LARGE], g=["a"] * 9),
        parquet(s=pa.array(LARGE).dictionary_encode(), g=["a"] * 9),
    ],
    ids=short,
)
def test_whole_numbers_that_float64_cannot_tell_apart(data, tmp_path):
    with refused(
        "…: score column 's' must be numbers that differ in float64 too, got 9 distinct numbers of 2**53 or "
        "more that become 1: subtract a constant from all"
    ):
        read(data, tmp_path)


def test_whole_numbers_that_float64_can_tell_apart(tmp_path):
    apart = [2**60, 2**60 + 256, -(2**60), 2**53, 2**53 - 1]
    written = "".join(f"{number},a\n" for number in apart) + "1152921504606846976.00,a\n1e300,a\n1E+300,a\n"
    score = read("s,g\n" + written, tmp_path).scores["s"]
    assert score.tolist() == [float(number) for number in apart] + [2.0**60, 1e300, 1e300]


def test_a_name_that_no_row_has_is_no_group(tmp_path):
    group = pa.DictionaryArray.from_arrays(pa.array([2, 0]), ["c", "b", "a"])
    table = read(parquet(s=[1, 2], g=group), tmp_path)
    assert table.groups["g"].cat.categories.tolist() == ["a", "c"]


# Labels


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        (["0", "1", "1"], None, ("0", "1")),
        (["9", "10", "10"], None, ("9", "10")),
        (["-1", "1", "1.0"], None, ("-1", "1")),
        (["0.0", "1.0", "1.0"], "1", ("0", "1")),
        (["0", "1", "1"], "1.0", ("0", "1")),
        (["1", "0", "0"], "0", ("1", "0")),
        (["false", "TRUE", "TRUE"], None, ("false", "TRUE")),
        (["true", "FALSE", "FALSE"], "False", ("true", "FALSE")),
        (["on", "On", "On"], "On", ("on", "On")),
        (["late", "on time", "on time"], None, ("late", "on time")),
        (["on time", "late", "late"], " late", ("on time", "late")),
    ],
)
def test_which_label_is_positive(values, positive, words, tmp_path):
    rows = "".join(f"1,a,{value}\n" for value in values)
    table = read("s,g,y\n" + rows, tmp_path, label="y", positive=positive)
    assert table.label_words == words
    assert table.label.tolist() == [False, True, True]


def test_one_of_many_labels(tmp_path):
    table = read("s,g,y\n1,a,late\n2,b,never\n3,b,on time\n", tmp_path, label="y", positive="late")
    assert table.label.tolist() == [True, False, False]
    assert table.label_words == ("not 'late'", "late")
    assert table.outcomes("y").tolist() == ["late", "not 'late'", "not 'late'"]
    assert table.outcomes("y").name == "y"


@pytest.mark.parametrize("values", [[False, True], [0.0, 1.0], pa.array([0, 1], pa.int8())])
def test_labels_in_parquet(values, tmp_path):
    table = read(parquet(s=[1, 2], g=["a", "b"], y=values), tmp_path, label="y")
    assert table.label.tolist() == [False, True]
    assert table.label_words == (("False", "True") if values[0] is False else ("0", "1"))


@pytest.mark.parametrize(
    ("values", "positive", "message"),
    [
        (
            "012",
            None,
            "label column 'y' must have 2 values, got 3 ('0', '1', '2'). Say which one is positive …",
        ),
        ("abcdefg", None, "… got 7 ('a', 'b', 'c', 'd', 'e', …). Say which one is positive with --positive"),
        ("000", None, "label column 'y' must have 2 values, got 1 ('0')"),
        ("000", "0", "label column 'y' must have 2 values, got 1 ('0')"),
        ("01", "2", "positive must be a value of label column 'y', got '2' (it has '0', '1')"),
        (["late", "not"], "lat", "…, got 'lat'; did you mean 'late'? (it has 'late', 'not')"),
        (["on", "On"], "ON", "…, got 'ON'; did you mean …"),
    ],
)
def test_bad_labels(values, positive, message, tmp_path):
    rows = "".join(f"1,a,{value}\n" for value in values)
    with refused(f"…table: {message}"):
        read("s,g,y\n" + rows, tmp_path, label="y", positive=positive)


def test_a_measurement_is_no_label(tmp_path):
    measured = np.arange(10_001) / 7
    with refused("…: label column 's' must have at most 10,000 distinct values, got 10,001 in 10,001 rows"):
        read(parquet(s=measured, g=np.arange(10_001) % 2), tmp_path, label="s", positive="1")


# Bad values


@pytest.mark.parametrize(
    ("value", "came", "hint"),
    [
        ("abc", "'abc'", ""),
        ("", "no value", ""),
        ('""', "no value", ""),
        (" ", "' '", ""),
        ("nan", "'nan'", ""),
        ("-inf", "'-inf'", ""),
        ("1e999", "'1e999'", ""),
        ("0x10", "'0x10'", ""),
        ("45%", "'45%'", ". Write percentages without the sign: 45, or 0.45"),
        ('"0,5"', "'0,5'", ". Write decimals with a point, and thousands without a sign"),
        ("x" * 99, "'" + "x" * 58 + "…", ""),
    ],
)
def test_a_score_that_is_no_number(value, came, hint, tmp_path):
    for role in ("score", "weight"):
        asked = {"scores": ["t"], "weight": "s"} if role == "weight" else {}
        with refused_rows(f"{role} column 's' must be finite numbers, got {came}", 2, 2, 4, hint):
            read(f"s,g,t\n1,a,1\n{value},b,1\n3,b,1\n?,b,1\n", tmp_path, **asked)


@pytest.mark.parametrize(
    ("values", "came"),
    [
        ([1, None], "no value"),
        ([1, float("nan")], "nan"),
        ([True, None], "no value"),
        (["1", "x"], "'x'"),
        ([Decimal("1.5"), None], "no value"),
        (pa.array([None, 1.0]).take(pa.array([1, 0])).dictionary_encode(), "no value"),
    ],
)
def test_a_score_that_is_no_number_in_parquet(values, came, tmp_path):
    with refused_rows(f"score column 's' must be finite numbers, got {came}", 2, 1, 2):
        read(parquet(s=values, g=["a", "b"]), tmp_path)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1], [2]], "list<element: int64>"),
        ([{"a": 1}, {"a": 2}], "struct<a: int64>"),
        (pa.array([0, 1], pa.date32()), "date32[day]"),
        (pa.array([0, 1], pa.timestamp("us", tz="No/where")), "timestamp[us, tz=No/where]"),
    ],
)
def test_kinds_of_values_that_are_nothing_to_us(values, kind, tmp_path):
    data = parquet(s=values, n=[1, 2], g=["a", "b"])
    with refused(f"…: score column 's' must be numbers, got values of type {kind}"):
        read(data, tmp_path)
    with refused(f"…: group column 's' must be text, numbers or booleans, got values of type {kind}"):
        read(data, tmp_path, scores=["n"], groups=["s"])
    with refused(f"…: label column 's' must be text, numbers or booleans, got values of type {kind}"):
        read(data, tmp_path, scores=["n"], label="s")


def test_a_type_that_pyarrow_cannot_work_with(monkeypatch, tmp_path):
    """As version 15 with names that are half floats."""

    def names(*args):
        raise pa.ArrowNotImplementedError("no kernel")

    monkeypatch.setattr(_columns, "names", names)
    with refused(
        "…: group column 'g' must be text, numbers or booleans, got values of type halffloat (no kernel)"
    ):
        read(parquet(s=[1, 2], g=np.array([1, 2], np.float16)), tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        "s,g,y\n1,a,1\n2,b,0\n3,,\n4,  ,\n",
        'g,s,y\na,1,1\nb,2,0\n"",3,\n,4,\n',
        parquet(s=[1, 2, 3, 4], g=["a", "b", None, ""], y=[1, 0, None, float("nan")]),
        parquet(s=[1, 2, 3, 4], g=[1, 2, None, float("nan")], y=[True, False, None, None]),
    ],
    ids=short,
)
def test_missing_groups_and_labels(data, tmp_path):
    required = "must have a value in every row, got no value"
    hint = ". Drop those rows, or say what they are by --unknown exclude or --unknown group"
    with refused_rows(f"group column 'g' {required}", 3, 2, 4, hint):
        read(data, tmp_path)
    with refused_rows(f"label column 'y' {required}", 3, 2, 4):
        read(data, tmp_path, groups=["s"], label="y")


def test_a_column_of_nulls(tmp_path):
    data = parquet(s=[1, 2], g=pa.nulls(2))
    with refused_rows("group column 'g' must have a value in every row, got no value", 1, 2, 2, "…"):
        read(data, tmp_path)
    with refused_rows("score column 'g' must be finite numbers, got no value", 1, 2, 2):
        read(data, tmp_path, scores=["g"], groups=["s"])


def test_a_measurement_is_no_group(tmp_path):
    rows = "".join(f"1,{i}\n" for i in range(201))
    with refused(
        "…: group column 'g' must have at most 200 distinct values, got 201 in 201 rows. "
        "Name a measured attribute, such as age, with --ordered"
    ):
        read("s,g\n" + rows, tmp_path)
    assert len(read("s,g\n" + rows[: rows.rindex("1,")], tmp_path).groups["g"].cat.categories) == 200


def test_negative_weights(tmp_path):
    with refused_rows("weight column 'w' must not be negative, got -0.5", 3, 2, 4):
        read("s,g,w\n1,a,1\n1,a,0\n1,a,-0.5\n1,a,-2\n", tmp_path, weight="w")
    with refused("…: weight column 'w' must have a positive weight, got 2 zeros"):
        read("s,g,w\n1,a,0\n1,a,0\n", tmp_path, weight="w")


# Bad columns


@pytest.mark.parametrize("kind", ["comma", "parquet"])
def test_a_missing_column(kind, tmp_path):
    with refused(
        "…: score column 'Rsik' must be in the file; did you mean 'risk'? (its columns are …'race', …)"
    ):
        read(GOOD[kind], tmp_path, scores=["Rsik"])
    with refused("…: group column 'gender' must be in the file (its columns are …)"):
        read(GOOD[kind], tmp_path, scores=["risk"], groups=["gender"])


def test_a_missing_column_among_many(tmp_path):
    header = ",".join(f"c{i}" for i in range(53))
    with refused("…: weight column 'c7_' must be in the file; did you mean 'c7'? (it has 53 columns)"):
        read(header + "\n", tmp_path, scores=["c0"], groups=["c1"], weight="c7_")


def test_a_column_twice(tmp_path):
    message = "…: group column 'g' must be in the file once, got 2 columns of that name"
    with refused(message):
        read("s,g,g\n1,a,b\n", tmp_path)
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names=["s", "g", "g"]), out)
    with refused(message):
        read(out.getvalue(), tmp_path)
    with refused("…: score columns must differ, got 's' twice"):
        read("s,g\n1,a\n", tmp_path, scores=["s", "t", "s"])


# Bad files


def test_the_name_of_a_file_is_visible(tmp_path):
    with pytest.raises(TableError) as error:
        read_table(str(tmp_path / "a\x1b[2J.csv"), scores=["s"], groups=["g"])
    assert "a\\x1b[2J.csv: must be CSV" in str(error.value)


def test_no_file(tmp_path):
    with refused(
        f"{tmp_path}/no.csv: must be CSV, gzipped CSV or Parquet, got nothing: there is no such file"
    ):
        read_table(f"{tmp_path}/no.csv", scores=["s"], groups=["g"])
    with refused(f"{tmp_path}: must be CSV, gzipped CSV or Parquet, got a folder"):
        read_table(str(tmp_path), scores=["s"], groups=["g"])
    with refused("…: must be a file that can be read, got: …"):
        read_table("a\0b", scores=["s"], groups=["g"])


def test_a_file_that_may_not_be_read(monkeypatch, tmp_path):
    def closed(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_formats, "open", closed, raising=False)
    with refused("…: must be a file that can be read, got: Permission denied"):
        read("s,g\n1,a\n", tmp_path)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that fails when it is read")
def test_a_file_that_fails_when_it_is_read():
    with refused("/proc/self/mem: must be a file that can be read, got: Input/output error"):
        read_table("/proc/self/mem", scores=["s"], groups=["g"])


def test_standard_input_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with refused("standard input: must have a table in it, got nothing: it is closed"):
        read_table("-", scores=["s"], groups=["g"])


@pytest.mark.parametrize(
    ("data", "came"),
    [
        (b"", "a header and at least 1 row of data, got an empty file"),
        (packed(b""), "a header and at least 1 row of data, got an empty file"),
        (b"\n\r\n", "a header and at least 1 row of data, got blank lines only"),
        (b"\xef\xbb\xbf", "a header and at least 1 row of data, got blank lines only"),
        (b"s,g", "at least 1 row of data, got 0"),
        (b"s,g\n\n", "at least 1 row of data, got 0"),
        (parquet(s=pa.array([], pa.float64()), g=pa.array([], pa.string())), "at least 1 row of data, got 0"),
    ],
    ids=short,
)
def test_no_rows(data, came, tmp_path):
    with refused(f"…table: must have {came}"):
        read(data, tmp_path)


@pytest.mark.parametrize(
    ("data", "came"),
    [
        ("s,g\n1,a\n2,b,c\n3,c\n", "data row 2 must have 2 fields, …, got 3: '2,b,c'"),
        ("\ns,g\n\n1,a\n\n2\n", "data row 2 must have 2 fields, one per column of the header, got 1: '2'"),
        ('s,g\n1,"a\nb"\n2,b,\n', "data row 2 must have 2 fields, …, got 3: '2,b,'"),
        ('s,g\n1,a\n2,"b\n3,c\n', "must close every quoted field, … opened in data row 2 and never closed"),
        ('s,g,z\n1,"b,0\n3,c,0\n', "must close every quoted field, … opened in data row 1 and never closed"),
        ('s,g\n1,a\n2,"' + "b,3\n" * 3_000_000, "must have rows of at most 4 MB, got data row 2, …"),
        ("s,g\n1," + "b" * (12 << 20) + "\n2,b\n", "must have rows of at most 4 MB, got data row 1, …"),
        ("x" * 200_000 + ",s\n", "must have column names in its first line, got none (field larger than …)"),
    ],
    ids=short,
)
def test_rows_that_do_not_fit(data, came, tmp_path):
    with refused(f"…table: {came}"):
        read(data, tmp_path)


@pytest.mark.parametrize(
    ("data", "came"),
    [
        ("s,g\n1,a\n2,é\n".encode("latin-1"), "byte 0xe9 in line 3: it may be Latin-1 or Windows-1252; …"),
        ("s,é\n1,a\n".encode("latin-1"), "byte 0xe9 in line 1: …"),
        ("s,g\n1,a\n2,b,é\n".encode("latin-1"), "byte 0xe9 in line 3: …"),
        ("s,g\n1,a\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        ("s,g\n1,a\n".encode("utf-16-be"), "zero bytes in its header, as UTF-16 has them: save it as UTF-8"),
    ],
    ids=short,
)
def test_not_utf8(data, came, tmp_path):
    for file in (data, packed(data)):
        with refused(f"…table: must be UTF-8 text, got {came}"):
            read(file, tmp_path)


@pytest.mark.parametrize(
    ("data", "name", "came"),
    [
        (b"PK\x03\x04 and so on", "t.xlsx", "… or Parquet, got a zip archive or an Excel workbook"),
        (b"ARROW1\0\0", "t.arrow", "CSV, gzipped CSV or Parquet, got an Arrow (Feather) file"),
        (b"s,g\n1,a\n", "t.PARQUET", "Parquet, by its name, got a file that begins with b's,g\\n'"),
        (GOOD["gzip"][:-9], "t.gz", "a whole gzip file, got one that cannot be unpacked (Com…)"),
        (GOOD["gzip"][:-1] + b"x", "t.gz", "a whole gzip file, got one that cannot be unpacked (Inc…)"),
        (GOOD["gzip"][:20] + b"xyz" + GOOD["gzip"][23:], "t.gz", "a whole gzip file, got …"),
        (GOOD["parquet"][:-9], "t.parquet", "a whole Parquet file, got one that cannot be read (…)"),
        (GOOD["parquet"][:99], "t", "a whole Parquet file, got one that cannot be read (…)"),
        (b"PAR1", "t", "a whole Parquet file, got one that cannot be read (…)"),
    ],
    ids=short,
)
def test_broken_files(data, name, came, tmp_path):
    with refused(f"…{name}: must be {came}"):
        read(data, tmp_path, name=name, **ASKED)


def test_parquet_text_that_is_not_utf8(tmp_path):
    for kind in (pa.string(), pa.binary()):
        group = pa.array([b"a", b"\xe9"], pa.binary()).view(kind)
        with pytest.raises(TableError, match="UTF"):
            read(parquet(bare=True, s=[1, 2], g=group), tmp_path)


def test_a_parquet_name_that_is_not_utf8(tmp_path):
    data = parquet(bare=True, score=[1, 2], race=["a", "b"]).replace(b"race", b"r\xe9ce")
    with refused("…: must be a whole Parquet file, got one that cannot be read (…)"):
        read(data, tmp_path, scores=["score"], groups=["race"])


@st.composite
def damaged(draw):
    """A good file with bytes changed, cut out or put in; or any bytes behind a good beginning."""
    data = bytearray(draw(st.sampled_from([*GOOD.values(), b"", b"PAR1", b"\x1f\x8b\x08", b"risk,race\n"])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        new = st.binary(max_size=4) | st.text(',;"\n\r1', max_size=4).map(str.encode)
        data[at : at + draw(st.integers(0, 3))] = draw(new)
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@given(damaged())
def test_a_damaged_file_is_read_or_refused_in_words(data):
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
    try:
        table = read_table("-", scores=["risk"], groups=["race"], label="late", positive="no", weight="w")
    except TableError as error:
        print(error)  # it can be written
        return
    finally:
        sys.stdin = stdin
    assert len(table.groups) == len(table.label) == len(table.weight) == table.n > 0
    assert np.isfinite(table.scores["risk"]).all()
    assert not table.groups.isna().to_numpy().any()
