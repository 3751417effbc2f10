"""Abu Hussein and Rodel 2023, PPEM using Homomorphic Encryption: the claims."""

from __future__ import annotations

import numpy as np
from reproduction import FAILS, HOLDS, REPAIRED, Cell, Claim, Finding, Rows, grid, spread

from . import attacks, cells, figures

VERSION = 1
PRINTED = 5e-4  # half of the last digit that the paper prints of a log-likelihood
SAME = 1e-6  # of parameters, in units of the data
ROWS = sorted(figures.table())
PAIRS = sorted({(n, k) for n, k, _ in ROWS})
CLIENTS = (2, 6, 10)
DRAWS = range(10)


def table1_cells(quick: bool) -> list[Cell]:
    """FEM in every row. PPEM where it can be paid for: README.md says in which rows."""
    if quick:
        short = grid(cells.row, n=200, k=2, clients=list(CLIENTS), draw=[0, 1], encrypted=True)
        large = [200, 4700, 9200]
        return short + grid(cells.row, n=large, k=[2, 3], clients=[2, 10], draw=0, encrypted=False)
    ten = grid(cells.row, n=[200, 9200], k=2, clients=list(CLIENTS), draw=DRAWS, encrypted=True)
    two = [
        cell
        for n, k in PAIRS
        for cell in grid(cells.row, n=n, k=k, clients=2, draw=0, encrypted=True)
    ]
    rest = [
        cell
        for n, k, clients in ROWS
        for cell in grid(cells.row, n=n, k=k, clients=clients, draw=0, encrypted=False)
    ]
    return ten + two + rest


def table1_judge(rows: Rows) -> dict[str, Finding]:
    """Log-likelihoods, iterations, clients, time."""
    both = Rows(row for row in rows if row["encrypted"])
    worst = np.abs(both.of("ppem") - both.of("fem"))
    draws, n = len({(row["n"], row["k"], row["draw"]) for row in both}), len(both)
    same = int((both.of("ppem iterations") == both.of("fem iterations")).sum())
    gaps = []
    for size, of_size in rows.groups("n"):
        for k, of_k in of_size.groups("k"):
            for _, of_draw in of_k.groups("draw"):
                if len({row["clients"] for row in of_draw}) > 1:
                    ends = of_draw.of("fem")
                    moved = np.ptp(of_draw.of("fem iterations"))
                    gaps.append((size, k, np.ptp(ends), moved))
    widest = np.array([gap[2] for gap in gaps])
    moved = sum(gap[3] > 0 for gap in gaps)
    slower = [
        spread(part.of("ppem seconds") / part.of("fem seconds"), ".0f")
        for part in (both.where(clients=c) for c in CLIENTS)
    ]
    return {
        "likelihood": Finding(
            HOLDS if worst.max() < PRINTED else FAILS,
            f"they differ by {spread(worst, '.0e')} in {n} rows",
            "The rounding of CKKS is far below the digits that the paper prints.",
            draws,
        ),
        "iterations": Finding(
            HOLDS if same == n else FAILS,
            f"the same in {same} of {n} rows",
            "The error of CKKS is far below the change at which EM stops.",
            draws,
        ),
        "clients": Finding(
            HOLDS if widest.max() < PRINTED and not moved else FAILS,
            f"2 to 10 clients differ by {spread(widest, '.0e')}, and in the number of iterations "
            f"in {moved} of {len(gaps)} data sets",
            "Sums do not depend on who holds which rows.",
            len(gaps),
        ),
        "time": Finding(
            HOLDS,
            "; ".join(f"{c} clients: {each}" for c, each in zip(CLIENTS, slower, strict=True)),
            "Ratios of the CPU time of an iteration, all clients and the server together. "
            "In the paper's table they fall with n, as encryption costs the same for any n.",
            draws,
        ),
    }


def voices_cells(quick: bool) -> list[Cell]:
    """Parkinson's data from ten starts over two clients, and over more."""
    if quick:
        return grid(cells.voices, start=range(2), clients=2)
    return grid(cells.voices, start=DRAWS, clients=2) + grid(cells.voices, start=0, clients=[6, 10])


def fig1_judge(rows: Rows) -> dict[str, Finding]:
    """Whether the two fits are the same."""
    worst = rows.of("apart")
    return {
        "identical": Finding(
            HOLDS if worst.max() < SAME else FAILS,
            f"parameters differ by {spread(worst, '.0e')} standard deviations of the data",
            f"With {', '.join(map(str, sorted({row['clients'] for row in rows})))} clients.",
            len({row["start"] for row in rows}),
        )
    }


def fig2_judge(rows: Rows) -> dict[str, Finding]:
    """Whether the two curves are the same."""
    worst = [
        np.abs(np.subtract(row["fem"], row["ppem"])).max()
        if len(row["fem"]) == len(row["ppem"])
        else np.inf
        for row in rows
    ]
    lengths = np.array([len(row["ppem"]) for row in rows])
    return {
        "curves": Finding(
            HOLDS if max(worst) < PRINTED else FAILS,
            f"at most {spread(worst, '.0e')} apart, in {spread(lengths, '.0f')} iterations",
            "As in Table 1.",
            len({row["start"] for row in rows}),
        )
    }


def curves_cells(quick: bool) -> list[Cell]:
    """The three settings of figures 3 to 5."""
    draws, clients = (range(1), [2, 10]) if quick else (DRAWS, list(CLIENTS))
    return [
        cell
        for n, k in figures.CURVES
        for cell in grid(
            cells.curves, n=n, k=k, draw=draws, clients=clients, rounds=3 if quick else 6
        )
    ]


def curves_judge(rows: Rows) -> dict[str, Finding]:
    """Between the protocols, and between numbers of clients."""
    gaps = [
        row["n"] * np.abs(np.subtract(row["fem"][: len(row["ppem"])], row["ppem"])).max()
        for row in rows
    ]
    others = [
        row["n"] * np.abs(np.subtract(row["ppem"], first["ppem"])).max()
        for row in rows
        for first in rows.where(n=row["n"], k=row["k"], draw=row["draw"])[:1]
        if first["clients"] != row["clients"]
    ]
    draws = len({row["draw"] for row in rows})
    rounds = len(rows[0]["ppem"])
    return {
        "fem": Finding(
            HOLDS if max(gaps) < PRINTED else FAILS,
            f"{spread(gaps, '.0e')} apart in the first {rounds} iterations",
            "The encrypted fits stop there to save time; Table 1 has whole ones.",
            draws,
        ),
        "clients": Finding(
            HOLDS if max(others) < PRINTED else FAILS,
            f"{spread(others, '.0e')} apart",
            "The same sums, added in another order.",
            draws,
        ),
    }


def found_cells(quick: bool) -> list[Cell]:
    """Figure 7, to the end, and figure 8, whose many clients cost most."""
    draws = range(1) if quick else DRAWS
    seven = grid(cells.found, n=4700, k=2, clients=2, draw=draws, rounds=60)
    return seven + grid(cells.found, n=5700, k=4, clients=10, draw=draws, rounds=4 if quick else 12)


def found_judge(rows: Rows) -> dict[str, Finding]:
    """Whether the clusters are found, and whether encryption changes what is found."""

    def clusters_found(k: int) -> Finding:
        part = rows.where(k=k)
        good = int((part.of("excess") < 0.01).sum())
        most = HOLDS if 2 * good > len(part) else FAILS
        return Finding(
            most,
            f"in {good} of {len(part)} draws; log-likelihood of a record below that under the "
            f"truth by {spread(part.of('excess'))}",
            "Of EM without encryption, to its end; PPEM was run for at most "
            f"{part[0]['rounds']} iterations, and is the same so far."
            + (" In the other draws EM ends in a local optimum." if good < len(part) else ""),
            len(part),
        )

    worst = rows.of("apart")
    return {
        "fig7": clusters_found(2),
        "fig8": clusters_found(4),
        "same": Finding(
            HOLDS if worst.max() < SAME else FAILS,
            f"parameters differ by {spread(worst, '.0e')} standard deviations of the data",
            "Figure 8 after 12 iterations, which many draws need more than.",
            len({row["draw"] for row in rows}),
        ),
    }


def leak_cells(quick: bool) -> list[Cell]:
    """Every attack, ten times."""
    starts = range(2) if quick else DRAWS
    models = [("fem", None), ("ppem", None), ("encrypted", None), ("masked", None), ("masked", 1.0)]
    return [
        *grid(attacks.each_alone, start=starts),
        *grid(attacks.several, m=[1, 8], start=starts, attacker=list(attacks.ATTACKERS)),
        *grid(attacks.with_the_key, start=starts),
        *grid(attacks.by_likelihood, m=[1, 2], start=starts),
        *(
            cell
            for name, epsilon in models
            for cell in grid(attacks.from_the_model, protocol=name, start=starts, epsilon=epsilon)
        ),
    ]


def leak_judge(rows: Rows) -> dict[str, Finding]:
    """What was read, by whom."""
    alone, key = rows.where(cell="each_alone"), rows.where(cell="with_the_key")
    totals = rows.where(attacker=attacks.ATTACKERS[1])
    most = max(row["m"] for row in totals)
    told = rows.where(cell="by_likelihood", m=1)
    exact = Rows(row for row in rows.where(protocol="ppem"))
    private = rows.where(protocol="masked", epsilon=1.0)
    clients = spread(alone.of("recovered"), ".0f")
    large = totals.where(m=most)
    return {
        "fem": Finding(
            HOLDS if alone.of("recovered").min() == 195 else FAILS,
            f"{clients} of 195 records, to {alone.of('error').max():.0e} standard deviations",
            "b = a x, as the paper says.",
            len(alone),
        ),
        "key": Finding(
            HOLDS,
            "the server and one client together read another's record to "
            f"{spread(key.of('error'), '.0e')} standard deviations",
            "Clients alone see nothing but totals (next row). All of it rests on the assumption: "
            "if one client works with the server, they read every record, as all clients have the "
            "same key and the server has what each of them sent. New keys in every iteration do "
            "not help.",
            len(key),
        ),
        "totals": Finding(
            HOLDS,
            f"one of two clients reads {100 * large.of('recovered').mean():.0f}% of the other's "
            f"{most} records, of {195} in all",
            "The paper's warning is needed: a client subtracts its own sums from the totals. What "
            "counts is how few records the others have, not how many there are in all. Clients of "
            f"over {most} were not tried, so that where the concern ends is not known.",
            len(large),
        ),
        "server": Finding(
            FAILS if told.of("recovered").mean() > 0.5 else HOLDS,
            f"{100 * told.of('recovered').mean():.0f}% of the records are found",
            "Ciphertexts hide what they should from those with bounded computing power. But each "
            "client's log-likelihood is sent beside them in the clear: ten of them, and the "
            "models of those rounds, which every client has, give a client's only record without "
            "any key.",
            len(told),
        ),
        "output": Finding(
            REPAIRED
            if exact.of("error").max() < attacks.FOUND < 0.1 < np.median(private.of("error"))
            else FAILS,
            f"exact model: to {spread(exact.of('error'), '.0e')} standard deviations; private "
            f"model, epsilon 1: {spread(private.of('error'))}, where a guess is "
            f"{spread(private.of('guess'))} off",
            "If all other clients are corrupted: the mean of a fitted mixture is that of the "
            "data, so their records give the last one. Only noise prevents that; no encryption "
            "does.",
            len(private),
        ),
    }


def cost_cells(quick: bool) -> list[Cell]:
    """Every protocol; masked sums are for three clients and more."""
    again = range(2) if quick else DRAWS
    timed = [
        cell
        for name in ("fem", "ppem", "encrypted", "masked")
        for cell in grid(
            cells.cost,
            n=2000,
            k=3,
            clients=[6, 10] if name == "masked" else list(CLIENTS),
            protocol=name,
            repetition=again,
        )
    ]
    return [*timed, *grid(cells.steps, repetition=again)]


def cost_judge(rows: Rows) -> dict[str, Finding]:
    """As ratios."""

    def each(name: str, clients: int, of: str = "ms") -> np.ndarray:
        part = rows.where(protocol=name, clients=clients)
        return Rows(sorted(part, key=lambda row: row["repetition"])).of(of)

    printed, ours = (
        "; ".join(f"{c}: {spread(each(name, c) / each('fem', c), '.0f')}" for c in CLIENTS)
        for name in ("ppem", "encrypted")
    )
    before = spread(each("encrypted", 10, "before"), ".0f")
    masked = spread(each("masked", 10) / each("fem", 10), ".1f")
    carried = spread(each("ppem", 10, "bytes") / each("fem", 10, "bytes"), ".0f")
    apiece = each("ppem", 10) / each("ppem", 2) / 5
    shares = rows.where(cell="steps")
    names = ("keys", "encrypt", "write", "read", "decrypt")
    whole = np.sum([shares.of(name) for name in names], axis=0)
    encrypting, n = shares.of("encrypt") / whole, len(shares)
    largest = max(names, key=lambda name: np.median(shares.of(name) / whole))
    plain = {"write": "writing ciphertexts", "keys": "making keys"}.get(largest, largest)
    return {
        "overhead": Finding(
            HOLDS,
            f"times FEM's CPU time of an iteration, by clients: as printed {printed}; privem's "
            f"encrypted sums {ours}, and {before} ms before the first iteration with 10 clients; "
            f"masked sums, 10 clients: {masked}. Bytes: {carried} times",
            "FEM here is an efficient one, which makes the ratio large.",
            n,
        ),
        "clients": Finding(
            HOLDS if np.median(apiece) < 1.25 else FAILS,
            f"a client's share with 10 clients is {spread(apiece, '.2f')} times that with 2",
            "For each client. All of them together take about four times as long with 10 clients "
            "as with 2, in the paper's table as here.",
            n,
        ),
        "encrypting": Finding(
            HOLDS if np.median(encrypting) > 0.5 else FAILS,
            f"{spread(100 * encrypting, '.0f')}% of a client's time; {plain} takes "
            f"{spread(100 * shares.of(largest) / whole, '.0f')}%",
            "Of making keys, encrypting, writing, reading and decrypting, with TenSEAL.",
            n,
        ),
    }


def ours_cells(quick: bool) -> list[Cell]:
    """The price of privacy, and of being alone."""
    draws = range(2) if quick else DRAWS
    sizes = [200, 2000, 9200] if quick else [200, 1100, 2900, 5600, 9200]
    epsilons = [0.3, 1.0, 3.0]
    return [
        *grid(cells.quality, n=sizes, draw=draws, method=["fem", "alone", "masked"]),
        *grid(cells.quality, n=sizes, draw=draws, method=["masked", "central"], epsilon=1.0),
        *grid(cells.quality, n=9200, draw=draws, method="masked", epsilon=epsilons),
        *grid(cells.exact, clients=[3, 10], draw=draws, protection=["masked", "encrypted"]),
    ]


def ours_judge(rows: Rows) -> dict[str, Finding]:
    """The same result without, and nearly the same with, differential privacy."""
    sums = Rows(row for row in rows if "protection" in row)
    same, private = sums.of("apart"), rows.where(method="masked", epsilon=1.0)
    sizes = sorted({row["n"] for row in private})
    few, many = (private.where(n=n).of("excess") for n in (sizes[0], sizes[-1]))
    alone, exact = (
        rows.where(method=name, n=sizes[-1], epsilon=None).of("excess")
        for name in ("alone", "masked")
    )
    return {
        "correct": Finding(
            HOLDS if same.max() < SAME else FAILS,
            f"masked and encrypted sums: {spread(same, '.0e')} standard deviations from the fit "
            "of all rows in one place",
            "privem's sums are integers, exact up to a grid; the likelihood is part of them, and "
            "masked sums have no key that opens an upload.",
            len({row["draw"] for row in sums}),
        ),
        "tradeoff": Finding(
            HOLDS,
            f"at epsilon 1, 10 clients, log-likelihood of a new record below the truth's: "
            f"n = {sizes[0]}: {spread(few)}; n = {sizes[-1]:,}: {spread(many)}, where an exact fit "
            f"has {spread(exact)} and one client alone {spread(alone)}",
            "It is large for few records and small for many."
            + (
                " Even then one client's own records, a tenth of all, give a better model."
                if np.median(alone) < np.median(many)
                else ""
            ),
            len(many),
        ),
    }


CLAIMS = {
    "table1": Claim(table1_cells, table1_judge, figures.table1),
    "fig1": Claim(voices_cells, fig1_judge, figures.fig1),
    "fig2and6": Claim(voices_cells, fig2_judge, figures.fig2and6),
    "fig3to5": Claim(curves_cells, curves_judge, figures.fig3to5),
    "fig7and8": Claim(found_cells, found_judge, figures.fig7and8),
    "leak": Claim(leak_cells, leak_judge, figures.leak),
    "cost": Claim(cost_cells, cost_judge, figures.cost),
    "ours": Claim(ours_cells, ours_judge, figures.ours),
}
