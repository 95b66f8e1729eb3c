"""python -m evenrisk.cli"""

from evenrisk.cli import main

main(prog_name="evenrisk")
