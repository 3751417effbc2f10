"""How often to look for messages: Flower gives them to whoever asks, and calls nobody."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["Pace"]

# Seconds between two looks, at least and at most.
_SOON, _LATER = 0.015, 1.0
# Between them, a share of the time waited so far: so much longer, at most, is a wait for the pause
# it ends in. And some times as long as the last look took: it is work for the SuperLink.
_SHARE, _CALM = 0.0625, 1.0
# The first look, as a share of the shortest of the last waits, and in seconds, at most.
_EARLY, _FIRST = 0.75, 0.2


class Pace:
    """When to look next for something that comes again and again."""

    def __init__(self) -> None:
        self._waits: deque[float] = deque([0.0], maxlen=4)
        self.begin()

    def begin(self) -> None:
        """From now on it is waited for."""
        self._begun = time.monotonic()

    def came(self) -> None:
        """It is there."""
        self._waits.append(time.monotonic() - self._begun)

    def pause(self, look: float = 0.0) -> None:
        """Sleep until the next look; the last one took so many seconds."""
        waited = time.monotonic() - self._begun
        first = min(_EARLY * min(self._waits), _FIRST) - waited
        time.sleep(max(first, min(max(_SOON, _CALM * look, _SHARE * waited), _LATER)))
