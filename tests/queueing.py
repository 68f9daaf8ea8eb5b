"""A single-server queue and its agent's record of the gate, with offline work on the device until some time."""

from outcomes import outcome

from rowen.demo.verdict.timeline import Transition

SECONDS = 150.0
SERVICE = 0.1
STOP = 0.0003


def queue(source, *, rate, tenant, cost=0.0):
    """Outcomes and transitions of one run.

    Args:
        source: Random numbers.
        rate: Requests per second at a time.
        tenant: Whether offline work is on the device at a time.
        cost: Seconds that a stop takes of the server beyond what the agent sees of it.
    """
    outcomes, transitions = [], []
    free = moment = source.expovariate(rate(0.0))
    opened = None
    while moment < SECONDS:
        service = source.expovariate(1 / SERVICE)
        if moment >= free or opened is None:
            opened = moment
            present = tenant(moment)
            transitions.append([moment, STOP if present else 0.0, int(present)])
            free = moment + present * (STOP + cost)
        begun = max(free, moment)
        free = begun + service
        transitions[-1].append(free)
        outcomes.append(outcome(moment, seconds=free - moment, ttft=begun - moment + service / 4, tpot=None))
        moment += source.expovariate(rate(moment))
    return outcomes, [
        Transition(closed, closed + stop, ends[-1], stop, count) for closed, stop, count, *ends in transitions
    ]
