"""Measure what a small load costs by the number of nodes: seconds of the task, and statements by purpose.

Statements are counted by the servers, including the statements by which the driver opens each connection.

``make bench-nodes``, or ``python -m ch_s3_lab.bench.scripts.nodes --nodes 1 3 6 12 --rounds 5``. Starts a sandbox for
each number of nodes in turn; all nodes share the cores of this machine.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter

from ch_s3_lab.bench.loads import StatementCount, bench_sandbox, load, make_files, make_table
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

# Name → partition key, load mode, and whether the table holds the same rows already.
LOADS = {
    "append": ("tuple()", "append", False),
    "replace_partitions": ("tuple()", "replace_partitions", True),
    "append, 100 partitions": ("user % 100", "append", False),
}


def count_statements(sandbox: Sandbox) -> int:
    """Count what clients have sent to all nodes so far, with the statements of this count but for one a node."""
    sql = "SELECT value FROM system.events WHERE event = 'InitialQuery'"
    return sum(int(sandbox.query(sql, node=node)[0]["value"]) for node in range(sandbox.nodes))


def measure(nodes: int, rounds: int, *, lists_statements: bool) -> None:
    """Measure each kind of load on a cluster, and print medians."""
    statements = StatementCount()
    with bench_sandbox(SandboxConfig(shards=nodes)) as sandbox:
        make_files(sandbox, "small", 60_000, 2 * nodes)
        for kind, (partition, mode, is_full) in LOADS.items():
            seconds, counts = [], []
            for number in range(rounds + 1):
                if number == 0 or not is_full:
                    make_table(sandbox, "small", partition)
                statements.reset()
                before = count_statements(sandbox)
                took, _ = load("bench.small", "small", number, mode=mode, poll_interval=0.25)
                if number:  # the first round warms up
                    seconds.append(took)
                    counts.append(count_statements(sandbox) - before - sandbox.nodes)
            print(
                f"{nodes:>2} nodes, {kind:<24}{statistics.median(seconds):6.2f} s,"
                f" {statistics.median(counts):.0f} statements",
                flush=True,
            )
            if lists_statements:
                names = Counter({name: len(found) for name, found in statements.seconds.items()})
                for name, count in names.most_common():
                    print(f"    {count:>3} {name:<28}{sum(statements.seconds[name]):7.3f} s")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3, 6, 12])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--statements", action="store_true", help="list the statements of the last load of each kind")
    args = parser.parse_args()
    for nodes in args.nodes:
        measure(nodes, args.rounds, lists_statements=args.statements)


if __name__ == "__main__":
    main()
