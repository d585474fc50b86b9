"""``python -m workbench.cli`` is the ``workbench`` command."""

from workbench.cli import main

main()
