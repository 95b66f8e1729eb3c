"""The table an audit is made of: scores, groups, outcomes and weights, read from a file.

    read_table(path, scores, groups, label, positive, weight) → Table

Conventions
-----------
A file is CSV, gzipped CSV or Parquet, told by its first bytes; "-" is standard input. Only the columns asked
for are kept. Whatever a file holds, it ends in a `Table` without missing values or in a `TableError`, which
says what was required, what came, and in which data row: the first row of data is 1, a header is not counted.

Text, for groups and labels: spaces around a value are not part of it, whole numbers are written without a
point (1.0 is "1"), booleans are "True" and "False". No value is a null, a NaN or an empty field; the words
NA, None and null are names like any other.
"""

from evenrisk._tables._messages import TableError
from evenrisk._tables._read import Table, read_table

__all__ = ["Table", "TableError", "read_table"]
