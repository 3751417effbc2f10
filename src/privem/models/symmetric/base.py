"""What the two symmetric estimators share: checks, exact and private fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...blocks.region import Region
from ...core import Rows, Source
from ...data.table import People
from ...estimator.advice import advise_at_end
from ...estimator.limits import in_order
from ...estimator.parameters import (
    check_array_shape,
    check_float,
    check_int,
    check_option,
    check_sizes,
)
from ...estimator.terms import ESTIMATED, Terms, forget_private, say_region
from ...local import Crowd
from ...statement import Statement
from .plan import SymmetricPlan
from .private_plan import PrivateSymmetricPlan, SymmetricTask

__all__ = ["GRADIENT_MECHANISMS", "check_gradient_parameters", "fit_exactly", "fit_privately"]

GRADIENT_MECHANISMS = ("clip", "robust")
_LOCAL_ROUNDS = 3


def check_gradient_parameters(model: Any) -> None:
    """Everything that can be checked before there are data."""
    if model.noise_variance is not None:
        check_float("noise_variance", model.noise_variance, 0.0, strict=True)
    check_option("method", model.method, ("auto", "moments", "gradient"))
    check_option("trust", model.trust, ("central", "local"))
    check_option("batch", model.batch, ("full", "partition"))
    check_int("max_iter", model.max_iter, 1)
    check_float("tol", model.tol, 0.0)
    check_float("step", model.step, 0.0, strict=True)
    for name in ("clip", "tau"):
        if getattr(model, name) is not None:
            check_float(name, getattr(model, name), 0.0, strict=True)
    if check_float("failure", model.failure, 0.0, strict=True) >= 1:
        raise ValueError(f"failure is a probability below 1, got {model.failure}")
    if isinstance(model.averaging, bool | np.bool_) is False:
        raise TypeError(f"averaging must be True or False, got {model.averaging!r}")
    if model.epsilon is None:
        if model.trust == "local":
            raise ValueError("trust='local' is for private fits: give epsilon")
        return
    model._terms(None)
    for name in ("noise_variance", "clip", "tau", "step"):
        if getattr(model, name) is not None:
            check_sizes(name, getattr(model, name))
    if model.n_iter is not None:
        check_int("n_iter", model.n_iter, 1)
    if model.method != "gradient" and (model.mechanism == "robust" or model.batch == "partition"):
        raise ValueError(
            f"mechanism={model.mechanism!r}, batch={model.batch!r}: robust gradients and the "
            "partition are paper 000's; ask for method='gradient'"
        )


def fit_exactly(model: Any, rows: Rows, regression: bool) -> None:
    """Fit by exact EM and set the attributes both estimators have."""
    init = _init(model)
    names = [*model._called(), "the target"] if regression else model._called()
    plan = SymmetricPlan(names, regression, model.noise_variance, init, model.max_iter, model.tol)
    fit = model._run(plan, rows)
    forget_private(model)
    model.noise_variance_ = float(fit.state.variance)
    model.n_iter_, model.lower_bound_ = fit.n_iter, fit.objective
    model.converged_ = fit.converged
    model._set_beta(fit.state.beta)
    if not fit.converged:
        advise_at_end(
            f"{type(model).__name__} did not converge: increase max_iter or tol",
            ConvergenceWarning,
        )


def fit_privately(
    model: Any, rows: Rows, groups: Any, regression: bool, target_bounds: Any = None
) -> None:
    """Fit under the model's budget and set the attributes both estimators have."""
    d, local = model.n_features_in_, model.trust == "local"
    init = _init(model)
    terms = _terms(model, model.bounds, d)
    target = _terms(model, target_bounds, 1).region if regression else None
    source, people = _source(model, rows, groups, local)
    task = SymmetricTask(
        d,
        regression,
        "gradient" if model.method == "gradient" else "moments",
        "clip" if model.mechanism == "auto" else model.mechanism,
        # People who answer once are spread over fewer rounds, as noise is what limits them.
        _LOCAL_ROUNDS if local and model.n_iter is None else model.n_iter,
        model.noise_variance,
        init,
        model.clip,
        model.tau,
        model.step,
        bool(model.averaging),
        model.batch == "partition",
        (terms.epsilon, terms.delta, model.failure),
    )
    task = replace(task, n_iter=min(task.iterations, model.max_iter))
    norms = PrivateSymmetricPlan.norms(task, terms.region, target)
    if local and norms:
        raise ValueError(
            "trust='local' needs bounds"
            + (" and target_bounds" if regression else "")
            + ": nobody may look at all records to find them"
        )
    count = people.public_count(terms.neighbours)
    if count is not None and task.iterations > count:
        raise ValueError(
            f"n_iter={task.iterations} iterations are more than n_samples={int(count)} records"
        )
    # The plan finds its own region; what the preamble is told only keeps it from looking for one.
    preamble = replace(terms, region=Region.around_origin(1.0, d)).preamble(people, d)
    parts = PrivateSymmetricPlan.parts(task, preamble, norms, local)
    allowance = terms.allowance(parts, count is None)
    plan = PrivateSymmetricPlan(task, preamble, allowance, terms.region, target, local)
    meter = terms.meter(count is None)
    fit = model._run_privately(plan, source, meter)
    model.noise_variance_ = float(fit.state.variance)
    model.n_iter_ = fit.iterations
    model._set_beta(fit.state.beta)
    if not fit.found:
        advise_at_end(
            "no bounds stood out of the noise: a ball of radius 1 was used; give bounds=, or use "
            "more records or a larger epsilon",
        )
    if fit.lost:
        # From the noise and the paid count alone: it says nothing about the data that was not paid.
        how = "about " if count is None else ""
        advise_at_end(
            f"{how}{fit.ground.count:,.0f} records are too few for a start in {d} dimensions at "
            f"epsilon={terms.epsilon:g}: its direction is mostly noise; give init=, or use more "
            "records, fewer features or a larger epsilon",
        )
    public = _known(model, people, terms, target, norms, regression)
    statement = Statement.of(
        meter, people.unit, terms.neighbours, public, "local" if local else "central"
    )
    model.privacy_ = people.signed(statement)
    model.bounds_ = _box(fit.ground.region)
    if fit.target is not None:
        model.target_bounds_ = tuple(float(side[0]) for side in _box(fit.target))


def _terms(model: Any, bounds: Any, d: int) -> Terms:
    """The model's terms; local privacy hides any change of a record, whatever ``neighbours``."""
    neighbours = "replace-one" if model.trust == "local" else model.neighbours
    bounds = in_order(bounds, getattr(model, "feature_names_in_", None))
    mechanisms = ("auto", *model._mechanisms)
    return Terms.check(
        model.epsilon,
        model.delta,
        bounds,
        model.mechanism,
        model.accountant,
        neighbours,
        model.max_weight,
        d,
        False,
        mechanisms,
    )


def _source(model: Any, rows: Rows, groups: Any, local: bool) -> tuple[Source, People]:
    if not local:
        found: tuple[Source, People] = model._owned(rows, groups)
        return found
    owned = groups is not None or getattr(rows, "groups", None) is not None
    if owned or getattr(rows, "weight", None) is not None:
        raise ValueError("trust='local' has no groups and no sample weights: one record a person")
    count = sum(len(block.X) for block in rows.blocks(65_536))
    return Crowd(rows), People("person", count, False)


def _init(model: Any) -> Any:
    if model.init is None:
        return None
    return check_array_shape("init", model.init, (model.n_features_in_,))


def _known(
    model: Any, people: People, terms: Terms, target: Region | None, found: bool, regression: bool
) -> dict[str, str]:
    """What the statement lists as public; ``found``: bounds that were not given were estimated."""
    public = people.public(terms.neighbours)
    if terms.region is not None:
        public["bounds"] = say_region(terms.region, getattr(model, "feature_names_in_", None))
    elif found:
        public["bounds"] = ESTIMATED
    if target is not None:
        public["target bounds"] = say_region(target)
    elif found and regression:
        public["target bounds"] = ESTIMATED
    for name in ("noise_variance", "tau"):
        if getattr(model, name) is not None:
            public[name] = f"{getattr(model, name):g}"
    if model.init is not None:
        public["init"] = "given"
    if people.weighted:
        public["largest sample weight"] = f"{terms.max_weight:g}"
    return {**public, **model._known_types()}


def _box(region: Region) -> tuple[Any, Any]:
    return region.to_data(-region.limit), region.to_data(region.limit)
