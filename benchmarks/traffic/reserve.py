"""How much memory an engine needs at once: Harli's reserve, and what requests of a trace really ask for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from traffic.kv_use import Holding


@dataclass(frozen=True)
class Reserve:
    """What the formula is made of; see `tokens`."""

    slo_tpot_seconds: float
    max_sequences: int
    """Sequences that the engine decodes together at most."""

    def tokens(self, release_seconds: float) -> float:
        """Tokens of key-value cache to keep free while memory takes so long to come back.

        (T / SLO_tpot) * max_bs of Harli, section 4.4: in the time of the release each of `max_sequences` writes a token
        per `slo_tpot_seconds`. In bytes it is that times what a token takes. What prompts need is not in it.
        """
        return release_seconds / self.slo_tpot_seconds * self.max_sequences


def growths(held: Sequence[Holding], seconds: float) -> list[int]:
    """For each request, in order of their starts: how many tokens more are held then than so many seconds before.

    Requests that have ended in between have given back what they held.
    """
    found = []
    active: list[Holding] = []
    for holding in held:
        before, now = holding.start - seconds, holding.start
        active = [other for other in active if other.end > before]
        active.append(holding)
        found.append(sum(_at(other, now) - _at(other, before) for other in active))
    return found


def _at(holding: Holding, time: float) -> int:
    """Tokens that it holds then; from its start on the whole prompt."""
    if not holding.start <= time < holding.end:
        return 0
    decoded = (time - holding.decode_start) / (holding.end - holding.decode_start)
    return holding.prompt_tokens + int(holding.output_tokens * max(0.0, decoded))


def short_fraction(needs: Sequence[int], reserve: float) -> float:
    """Part of the needs that are more than the reserve."""
    return sum(need > reserve for need in needs) / len(needs)
