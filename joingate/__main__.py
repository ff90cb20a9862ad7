"""So that `python -m joingate` is the command line, wherever the script `joingate` is not on the path."""

from joingate.cli import main

if __name__ == "__main__":
    main()
