"""Exact fits that go on: ``partial_fit``, for records that come block by block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from sklearn.utils.metaestimators import available_if

from ..em import Stream
from ..fit import go_on
from .base import Estimator

_PRIVATE = (
    "partial_fit is for exact fits (epsilon=None): a private fit reads all records in each of its "
    "iterations, which is more accurate at the same budget than blocks are. Write the stream to a "
    "file or a folder of files, and fit that"
)
_NOTHING = (
    "this model holds no sums to go on from. A stream begins with an exact fit of this object "
    "(max_iter above 0, and a factor analysis needs as many rows as columns) or with a model that "
    "was saved after partial_fit: begin with a fresh estimator and its first block"
)


class Streamed(Estimator):
    """Abstract base of estimators whose exact fits can go on with more records.

    The sums of a fit are kept (:class:`privem.em.Stream`), and :class:`privem.em.OnlineEM` moves
    them by those of each further block.
    """

    # Parameters that must stay as they are along a stream.
    _fixed: ClassVar[tuple[str, ...]] = ()
    # Why a method is missing.
    _absent: ClassVar[Mapping[str, str]] = {"partial_fit": _PRIVATE}
    n_iter_: int
    # Where a stream stands, or a fit that one could go on from; each is set where there is one.
    _stream: Stream
    _ended: Stream

    @available_if(lambda self: self.epsilon is None)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take another block of records into the model, and look at it once. Exact fits only.

        The first block is fitted as :meth:`fit` would; it should be large enough for that, and
        like the rest. Each further block moves the sums that the model is made of by a step of
        (w/N)^0.6, w being its weight and N that of all records so far, and the M-step follows
        (Cappé and Moulines 2009). A model that was fitted goes on from that fit. The guide to
        models (``docs/models.md``) has the details.

        Parameters
        ----------
        X, y, sample_weight : as those of :meth:`fit`
            The columns of all blocks must be the same.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from privem import KMeans
        >>> X = np.array([[1.0, 2], [10, 2], [1, 4], [10, 4], [1, 0], [10, 0]])
        >>> model = KMeans(n_clusters=2, epsilon=None).partial_fit(X[:4]).partial_fit(X[4:])
        >>> np.sort(model.cluster_centers_[:, 0]).tolist()
        [1.0, 10.0]
        """
        if self.epsilon is not None:  # set since the method was looked up
            raise AttributeError(_PRIVATE)
        go_on(self, X, y, sample_weight)
        return self

    def _keep(self, stream: Stream | None) -> None:
        """Keep the sums that a fit has ended with; a model file does not."""
        if stream is not None:
            self._ended = replace(stream, fixed={n: getattr(self, n) for n in self._fixed})

    def _begun(self) -> Stream:
        """The sums so far, checked."""
        stream: Stream | None = vars(self).get("_stream", vars(self).get("_ended"))
        if stream is None:
            raise ValueError(_NOTHING)
        for name, value in stream.fixed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} was {value!r} when the stream began and is {getattr(self, name)!r} "
                    "now: set it back, or begin with a fresh estimator"
                )
        return stream

    def _set_online(self, state: Any, stream: Stream) -> None:
        """Set what a block has led to."""
        iterations = self.n_iter_ + 1
        self._set_state(state)
        self._stream = stream
        if stream.sums:
            self.n_iter_ = iterations

    @abstractmethod
    def _online(self, table: Any) -> tuple[Any, Any]:
        """The model of a frame and the parameters so far: what :class:`privem.em.OnlineEM` takes.

        ``table`` is the next block.
        """

    @abstractmethod
    def _set_state(self, state: Any) -> None:
        """Set the parameters."""

    def _check_stream(self) -> None:
        """Raise for parameters that are wrong for a stream."""
