"""Who may import whom: the table, and a check that the source keeps to it.

A *module* here is a file or a folder directly below `evenrisk`. Heavy optional packages stay in theirs too.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evenrisk
from optional import need

SRC = Path(evenrisk.__file__).parent

CORE = {"_xp"}
VALIDATION = {"_validation"}
PUBLIC = {
    "linear_model",
    "svm",
    "baselines",
    "neural_network",
    "boosting",
    "nn",
    "postprocessing",
    "metrics",
    "model_selection",
    "plots",
    "report",
    "datasets",
    "exceptions",
    "distances",
    "parity",
}
ESTIMATORS = (
    CORE
    | VALIDATION
    | {
        "_kernels",
        "parity",
        "curves",
        "losses",
        "solvers",
        "distances",
        "objective",
        "calibration",
        "_estimator",
    }
)
MAY_IMPORT = {
    "_xp": set(),
    "_kernels": set(),
    "_show_versions": {"_kernels"},
    "_validation": set(),
    "_files": set(),
    "_score_file": VALIDATION,
    "exceptions": VALIDATION,
    "parity": CORE | VALIDATION,
    "curves": CORE | VALIDATION | {"_kernels"},
    "losses": CORE | VALIDATION,
    "solvers": CORE | VALIDATION,
    "calibration": CORE | VALIDATION,
    "datasets": CORE | VALIDATION,
    "distances": CORE,
    "objective": CORE | {"_kernels", "distances"},
    "metrics": CORE | VALIDATION | {"parity", "curves"},
    "_estimator": ESTIMATORS - {"_estimator"},
    "linear_model": ESTIMATORS,
    "svm": ESTIMATORS,
    "baselines": ESTIMATORS - {"calibration"},
    "boosting": ESTIMATORS,
    "neural_network": ESTIMATORS | {"nn"},
    "nn": CORE | VALIDATION | {"parity", "distances"},
    "postprocessing": ESTIMATORS | {"linear_model", "metrics", "model_selection"},
    "model_selection": VALIDATION | {"metrics"},
    "plots": VALIDATION | {"metrics"},
    "report": VALIDATION | {"metrics", "plots", "_files"},
    "paper": PUBLIC | {"_files"},
    "cli": PUBLIC | VALIDATION | {"_files", "_score_file", "paper"},
}
HEAVY = {"torch", "cupy", "lightgbm", "xgboost", "dask", "cvxpy", "dccp", "skops", "onnxruntime", "numba"}
HEAVY_ALLOWED_IN: dict[str, set[str]] = {
    "_kernels": {"numba"},
    "baselines": {"cvxpy", "dccp"},
    "boosting": {"lightgbm", "xgboost"},
    "neural_network": {"torch"},
    "nn": {"torch"},
}
SLOW_TO_IMPORT = {"pandas", "matplotlib", "narwhals", "pyarrow", "jinja2", "rich", "array_api_compat"}


def top_modules():
    return sorted(
        p.stem if p.is_file() else p.name
        for p in SRC.iterdir()
        if (p.suffix == ".py" or (p.is_dir() and list(p.glob("*.py")))) and p.stem != "__init__"
    )


def files(module):
    path = SRC / f"{module}.py"
    return [path] if path.exists() else sorted((SRC / module).rglob("*.py"))


def imports(tree, *, at_import_time=False):
    """Every absolute module name imported in a syntax tree; type-checking blocks do not run."""
    body = tree.body if at_import_time else [tree]
    for top in body:
        if isinstance(top, (ast.FunctionDef, ast.ClassDef)) and at_import_time:
            continue
        for node in ast.walk(top):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, "imports must be absolute"
                yield node.module
                if node.module == "evenrisk":
                    yield from (f"evenrisk.{alias.name}" for alias in node.names)


def without_type_checking(tree):
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")
    ]
    return tree


def modules_imported(source):
    """The modules that a source text imports."""
    names = imports(without_type_checking(ast.parse(source)))
    return {name.split(".")[1] for name in names if name.startswith("evenrisk.")} - {"__version__"}


def private_imports(source, module):
    """Private modules of other modules that a source text imports, or takes names from."""
    tree = without_type_checking(ast.parse(source))
    names = list(imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.count(".") == 1:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names if name.startswith("evenrisk.")]
    return {
        ".".join(part[:3])
        for part in parts
        if len(part) > 2 and part[1] != module and part[2].startswith("_")
    }


def test_no_test_module_imports_another():
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found = [name for name in imports(ast.parse(path.read_text())) if name.startswith("test_")]
        assert not found, f"{path.name} imports {found}"


def test_every_module_is_in_the_table():
    assert set(top_modules()) == set(MAY_IMPORT)


@pytest.mark.parametrize("module", sorted(MAY_IMPORT))
def test_a_module_imports_only_what_it_may(module):
    for path in files(module):
        found = modules_imported(path.read_text()) - {module}
        assert found <= MAY_IMPORT[module], f"{path.name} imports {sorted(found - MAY_IMPORT[module])}"


@pytest.mark.parametrize("module", sorted(MAY_IMPORT))
def test_private_modules_are_closed_to_other_modules(module):
    for path in files(module):
        found = sorted(private_imports(path.read_text(), module))
        assert not found, f"{path.name} imports {found}"


@pytest.mark.parametrize(
    "offence",
    [
        "from evenrisk.metrics._rows import ScoredRows",
        "from evenrisk.metrics import _rows",
        "def f():\n    import evenrisk.metrics._rows as rows",
        "from evenrisk._validation._arrays import merged",
    ],
)
def test_a_private_module_of_another_module_is_found(offence):
    assert private_imports(offence, "report")
    assert not private_imports(offence, offence.split("evenrisk.")[1].split(".")[0].split()[0])


def test_a_module_with_an_underscore_is_open():
    assert not private_imports("from evenrisk._validation import shown\nimport evenrisk._files", "report")


@pytest.mark.parametrize("module", sorted(MAY_IMPORT))
def test_heavy_packages_stay_in_their_modules(module):
    for path in files(module):
        found = {name.split(".")[0] for name in imports(ast.parse(path.read_text()))} & HEAVY
        assert found <= HEAVY_ALLOWED_IN.get(module, set()), f"{path.name} imports {found}"


@pytest.mark.parametrize("module", sorted(MAY_IMPORT))
def test_slow_packages_are_imported_where_they_are_used(module):
    for path in files(module):
        tree = without_type_checking(ast.parse(path.read_text()))
        found = {name.split(".")[0] for name in imports(tree, at_import_time=True)} & SLOW_TO_IMPORT
        assert not found, f"{path.name} imports {found} at its top"


@pytest.mark.parametrize(
    ("module", "offence"),
    [
        ("distances", "from evenrisk.parity import PARITIES"),
        ("distances", "from evenrisk import _validation"),
        ("solvers", "import evenrisk.objective"),
        ("losses", "def f():\n    from evenrisk.distances import penalty"),
        ("plots", "from evenrisk.curves import gaps"),
        ("report", "from evenrisk.parity import PARITIES"),
    ],
)
def test_an_import_that_is_not_in_the_table_is_found(module, offence):
    assert not modules_imported(offence) <= MAY_IMPORT[module]


def test_public_names_open_from_the_root():
    assert all(getattr(evenrisk, name) is not None for name in evenrisk.__all__)
    assert evenrisk.audit is evenrisk.report.audit, "the function, not a module"
    with pytest.raises(AttributeError, match="no attribute 'FairnessForAll'"):
        evenrisk.FairnessForAll  # noqa: B018


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("FairLGBMClassifier", "lightgbm"),
        ("FairXGBClassifier", "xgboost"),
        ("FairMLPClassifier", "torch"),
        ("ParityLoss", "torch"),
    ],
)
def test_names_that_need_an_extra_open_from_the_root_too(name, package):
    need(package)
    assert getattr(evenrisk, name).__name__ == name
    assert name in dir(evenrisk)
    assert name not in evenrisk.__all__, "`import *` works without the extra"


def test_importing_the_root_imports_no_other_package():
    code = (
        "import sys, evenrisk; print(*{name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & (HEAVY | SLOW_TO_IMPORT | {"numpy", "scipy", "sklearn", "click"})
    assert "evenrisk" in done.stdout
