"""`python -m gateway.cli`, which is how one program starts another without looking for it on the path."""

from gateway.cli import main

main()
