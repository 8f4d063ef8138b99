"""Start a worker: `python -m benchmarks.peers.workers`."""

from benchmarks.peers.workers.protocol import main

if __name__ == "__main__":
    main()
