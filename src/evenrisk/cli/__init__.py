"""The command line: parse, make one public call, print or write."""

from evenrisk.cli._audit import audit
from evenrisk.cli._reproduce import reproduce
from evenrisk.cli._status import main

main.add_command(audit)
main.add_command(reproduce)
