"""The command line: parse, make one public call, print or write."""

import io
import sys

import click

from evenrisk import __version__
from evenrisk.cli._audit import audit
from evenrisk.cli._reproduce import reproduce
from evenrisk.cli._status import Program


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenrisk")
def main() -> None:
    """Risk scores that are fair at every threshold."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without some letter gets a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


main.add_command(audit)
main.add_command(reproduce)
