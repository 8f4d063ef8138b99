"""The `keras-transformer` command, also available as `python -m keras_transformer`."""

import signal
import sys


def main() -> int:
    """Run the command and return its exit code. Ctrl-C prints one line, even during startup."""
    try:
        from keras_transformer.toolkit.cli import main
    except KeyboardInterrupt:
        from keras_transformer.files import tell

        tell("interrupted")
        return 128 + signal.SIGINT
    return main()


if __name__ == "__main__":
    sys.exit(main())
