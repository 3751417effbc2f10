"""``privem fit``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .arguments import Data, Header, Json
from .choices import ACCOUNTANTS, Batch, Covariance, Method, Neighbours, PriorKind, Trust
from .failures import UsageError, writing_file
from .kinds import Kind

__all__ = ["fit"]


def fit(
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the model (JSON).")
    ],
    components: Annotated[
        int | None,
        typer.Option(
            "--components",
            "-k",
            min=1,
            help="Number of components, clusters, factors, lines or classes; the others have none "
            "to choose.",
        ),
    ] = None,
    model: Annotated[
        Kind, typer.Option("--model", "-m", metavar="NAME", help="What to fit: see above.")
    ] = Kind.gmm,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="What a regression is to explain."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help="Which columns, by name; may be repeated. Default: all but weight, groups and "
            "target.",
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            "--weight", metavar="COLUMN", help="A column that says how much a row counts."
        ),
    ] = None,
    max_weight: Annotated[
        float | None,
        typer.Option("--max-weight", help="Public cap on --weight in a private fit. Default: 1."),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(
            "--max-rows",
            min=1,
            help="Public limit on the number of rows (gmm, kmeans); --delta 0 needs one.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="COLUMN",
            help="A column that says whom a row belongs to: privacy then hides persons, not rows.",
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="Type of a column in synthetic records: int, bool, float, uint8, ... Needed for "
            "CSV only, where every column is float otherwise.",
        ),
    ] = None,
    header: Header = None,
    covariance: Annotated[
        Covariance | None,
        typer.Option("--covariance", help="Shape of a mixture's covariances. Default: full."),
    ] = None,
    prior: Annotated[
        PriorKind | None,
        typer.Option("--prior", help="Give a mixture's posterior mode under the default prior."),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter",
            min=1,
            help="At most so many iterations. Default: 100 (gmm), 300 (kmeans), 1000 (fa, "
            "regression-mixture, categorical), 500 (symmetric*), 5000 (missing-regression); a "
            "private fit chooses fewer, see --n-iter.",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            "--tol",
            min=0.0,
            help="Stop an exact fit (fa: any) when an iteration gains less.",
        ),
    ] = None,
    n_init: Annotated[
        int | None,
        typer.Option("--n-init", min=1, help="Starts of an exact fit; the best is kept."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**32 - 1, help="For starts; never for noise."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Privacy budget of the whole fit. Default: 1."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Probability with which privacy may fail. Default: 1e-6."),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="COLUMN=LOW:HIGH",
            help="Public limits of a column; for every column or none (then they are estimated). "
            "Those of the target may be given or not.",
        ),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            "--category",
            metavar="COLUMN=A,B,...",
            help="Public list of a column's categories; a private fit of categorical needs one for "
            "every column.",
        ),
    ] = None,
    noise_variance: Annotated[
        float | None,
        typer.Option(
            "--noise-variance",
            help="Of symmetric* and missing-regression, where it is known. Default: estimated.",
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option("--method", help="Of symmetric* and missing-regression. Default: auto."),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="How sums are released: whitened, joint, ggg, llg, laplace (gmm); whitened, "
            "joint, gg, ll, dplloyd (kmeans); whitened, joint (fa); clip, robust (--method "
            "gradient). Default: auto.",
        ),
    ] = None,
    accountant: Annotated[
        str | None,
        typer.Option(
            "--accountant",
            metavar="NAME",
            help=f"How the cost is counted: {ACCOUNTANTS}. Default: auto, the tightest valid.",
        ),
    ] = None,
    trust: Annotated[
        Trust | None,
        typer.Option(
            "--trust",
            help="Who adds the noise: whoever holds the data, or everybody's own device (local; "
            "not gmm, kmeans, fa). Default: central.",
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option("--clip", help="Norm to clip gradients at (--method gradient). Default: 1."),
    ] = None,
    tau: Annotated[
        float | None,
        typer.Option(
            "--tau",
            help="Public bound on a gradient's second moments (--mechanism robust). Default: "
            "found privately.",
        ),
    ] = None,
    step: Annotated[
        float | None,
        typer.Option("--step", help="Step size of --method gradient. Default: 1."),
    ] = None,
    failure: Annotated[
        float | None,
        typer.Option("--failure", help="Failure probability of --mechanism robust. Default: 0.05."),
    ] = None,
    batch: Annotated[
        Batch | None,
        typer.Option(
            "--batch",
            help="Whether each step of --method gradient uses all records or its own. Default: "
            "full.",
        ),
    ] = None,
    averaging: Annotated[
        bool | None,
        typer.Option(
            "--averaging/--no-averaging",
            help="Mean of the later iterates of --method gradient. Default: yes.",
            show_default=False,
        ),
    ] = None,
    missing_probability: Annotated[
        float | None,
        typer.Option(
            "--missing-probability",
            help="How often fields are empty (missing-regression), if known. Default: estimated.",
        ),
    ] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option("--neighbours", help="The change that privacy hides. Default: add-remove."),
    ] = None,
    n_iter: Annotated[
        int | None,
        typer.Option(
            "--n-iter", min=1, help="Iterations of a private fit. Default: as the noise allows."
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Exact EM, without noise: NOTHING about it is private.")
    ] = False,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", help="Threads; -1 uses every core.")
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and --json).")
    ] = False,
) -> None:
    """Fit a model to DATA privately, without loading it whole, and save it.

    DATA is a .csv, .parquet or .npy file, or a folder of .parquet or .csv files.

    \b
    gmm                   a Gaussian mixture
    kmeans                k-means
    fa                    factor analysis
    symmetric             x is b or -b, and noise
    symmetric-regression  the target is <b, x> or -<b, x>, and noise
    missing-regression    it is <b, x> and noise; fields of x may be empty
    regression-mixture    it follows one of K lines
    categorical           K latent classes, over columns of categories

    The whole fit is differentially private, with epsilon 1 and delta 1e-6 unless said otherwise;
    the statement is printed and saved with the model. With --exact nothing is private: treat such a
    model as you would treat the data.
    """  # noqa: D301 (the lines between "\\b" and the next empty one stay as they are)
    # Imported here, as in every command: help must not load the library.
    from ..files import check_destination
    from .console import emit_json, note, show
    from .fitting import fit_file
    from .options import columns_of, types_of
    from .settings import Settings
    from .summary import describe

    settings = Settings(
        kind=model,
        components=components,
        covariance=covariance,
        prior=prior,
        max_iter=max_iter,
        tol=tol,
        n_init=n_init,
        seed=seed,
        n_jobs=n_jobs,
        exact=exact,
        epsilon=epsilon,
        delta=delta,
        bounds=tuple(bound or ()),
        neighbours=neighbours,
        n_iter=n_iter,
        target=target,
        categories=tuple(category or ()),
        noise_variance=noise_variance,
        method=method,
        weight=weight,
        groups=groups,
        max_weight=max_weight,
        max_rows=max_rows,
        mechanism=mechanism,
        accountant=accountant,
        trust=trust,
        clip=clip,
        tau=tau,
        step=step,
        failure=failure,
        batch=batch,
        averaging=averaging,
        missing_probability=missing_probability,
    )
    settings.estimator()  # Complains about parameters before any file is touched.
    if delta == 0 and (max_rows is None or not bound):
        raise UsageError(
            "--delta 0 needs --bound for every column, and --max-rows: nobody counts a file's rows "
            "beforehand"
        )
    chosen, declared = columns_of(columns), types_of(types)
    if chosen is not None and weight in chosen:
        raise UsageError(f"--weight {weight!r} is also one of --columns")
    if target is not None and target in (weight, *(chosen or ())):
        raise UsageError(f"--target {target!r} is also --weight or one of --columns")
    if groups is not None and groups in (weight, target, *(chosen or ())):
        raise UsageError(f"--groups {groups!r} is also --weight, --target or one of --columns")
    if declared and model is Kind.categorical:
        raise UsageError("--type is for columns of numbers; categories need none")
    if data.exists() and output.exists() and data.samefile(output):
        raise UsageError(f"--output {str(output)!r} would overwrite the data")
    with writing_file(output):
        destination = check_destination(output)
    _, summary = fit_file(settings, data, chosen, destination, quiet, declared, header)
    if as_json:
        emit_json(summary | {"output": str(output)})
    elif not quiet:
        for warning in summary["warnings"]:
            note(warning)
        show(*describe(summary, output))
