"""`python -m rowen.simulator`: the program `rowen`."""

from rowen.simulator.cli.command import main

main()
