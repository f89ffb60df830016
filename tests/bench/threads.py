"""Whether one busy core slows `tx translate` down: `python tests/bench/threads.py`.

Runs the command in turns with nothing beside it and with a Python loop that never ends, pinned to one core, and prints
the ratio. A thread that waits for another on a core it cannot have makes it many times slower; fair shares of the
cores cost at most a factor of two. Linux only, for the pinning.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from startup import Case, arguments, attempt, parse, report, table, tx_cases, write_json

# ends by itself when this program does, however that happens
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while os.getppid() == int(sys.argv[2]): pass
"""
SETTLE = 0.2  # seconds from the first turn of the loop to the command, for the scheduler to have noticed


def attempt_beside_a_busy_core(case: Case, source: str, timed: bool) -> None:
    core = min(os.sched_getaffinity(0))
    spinner = subprocess.Popen([sys.executable, "-c", SPIN, str(core), str(os.getpid())], stdout=subprocess.PIPE)
    try:
        assert spinner.stdout is not None
        spinner.stdout.readline()  # it is pinned now, and about to spin
        time.sleep(SETTLE)
        attempt(case, source, timed)
        if spinner.poll() is not None:
            case.problem = "failed: the core was not kept busy"
    finally:
        spinner.kill()
        spinner.communicate()


def main() -> int:
    options = parse(arguments(__doc__))
    pairs = [(idle, Case(f"{idle.name} (busy)", idle.command)) for idle in tx_cases(options.tx, options.text)]
    for i in range(options.rounds + 1):
        for idle, busy in pairs:
            attempt(idle, options.text, timed=i > 0)
            if not idle.problem:
                attempt_beside_a_busy_core(busy, options.text, timed=i > 0)
    for idle, busy in pairs:
        busy.problem = busy.problem or idle.problem
        print(table([idle, busy], idle, "ratio"))
    write_json(options, [report(case, pair[0]) for pair in pairs for case in pair])
    return 1 if pairs[0][1].problem else 0


if __name__ == "__main__":
    sys.exit(main())
