"""The first line of a CSV file: a record must never become column names, nor enter a message."""

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from privem import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    RegressionMixture,
    SymmetricMixture,
    load,
    private_mean,
)
from privem.cli import app
from privem.data import read_file, read_table
from privem.data.header import could_be_data, read_header
from privem.federation import Federation, FederationError, Party

# The first record of a file without a header, in every disguise.
RECORDS = [
    "41.7731,5.0917,88.1",
    "41.7731,41.7731,88.1",  # polars renames what is repeated
    "41.7731,,88.1",
    ",,",
    "41.7731,NA,88.1",
    "NA,n/a,NULL",
    "true,41.7731,False",
    "True,FALSE,NaN",
    "1931-07-04,41.7731,88.1",
    "4 Jul 1931,Jul 4 1931,07:31",
    "Friedegund,41.7731,88.1",
    '"41.7731","5.0917","88.1"',
    " 41.7731, 5.0917, 88.1",
    "41.7731kg,5.0917,inf",
    "$41.77,50%,(88)",
    "Friedegund,Friedegund,other",
    "n.a.,#N/A N/A,#DIV/0!",
    'Friedegund,"height\n41.7731",x',  # a quote that closes in another line
    "Friedegund\x0b88,a,b",
]
SECRETS = ("41.77", "5.09", "88", "1931", "Friedegund", "07:31")


def quotes_nothing(error):
    text = str(error)
    assert not [secret for secret in SECRETS if secret in text], text
    return text


def written(folder, first, name="x.csv", rest="1,2,3\n4,5,6\n7,8,10\n"):
    path = folder / name
    path.write_text(f"{first}\n{rest}", newline="")
    return path


def command(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_refused_wherever_a_csv_file_is_read(record, tmp_path):
    path = written(tmp_path, record)
    words = ["no", "yes"]
    readers = [
        lambda: read_file(path),
        lambda: read_file(path, weight=np.ones(3)),
        lambda: read_table(path),
        lambda: GaussianMixture(1, bounds=9.0).fit(path),
        lambda: KMeans(1, epsilon=None).fit(path),
        lambda: private_mean(path, tau=9.0),
        lambda: CategoricalMixture(1, categories=words).fit(path),
        lambda: CategoricalMixture(1, epsilon=None).fit(path),
        lambda: Party(path, "north"),
        lambda: Party(path, "north", categories=words),
        lambda: GaussianMixture(1, epsilon=None).fit(np.eye(3)).predict(path),
    ]
    for read in readers:
        with pytest.raises(ValueError, match="seems to have no header") as error:
            read()
        text = quotes_nothing(str(error.value).replace(str(tmp_path), ""))
        assert "header=True" in text
        assert "--no-header" in text


def test_headers_that_people_write_are_taken():
    for header in (
        "age,height",
        ",age,height",
        "x,y",
        "No,year,pm2.5",
        "x1,x2",
        "_a,Größe",
        "年齢",
    ):
        assert not could_be_data(header.split(",")), header
    for record in ("2020,2021", "1stFlrSF,area", "yes,no", "", "a,a", "a,b,a", "age,-", "a,?"):
        assert could_be_data(record.split(",")), record


@pytest.mark.parametrize("separator", [";", "\t", "|", " "])
def test_a_record_of_categories_that_commas_do_not_separate_is_no_name(separator, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("yes no yes\nno no yes\n".replace(" ", separator) * 20)
    for read in (
        lambda: CategoricalMixture(1, categories=["no", "yes"]).fit(path),
        lambda: Party(path, "north", categories=["no", "yes"]),
    ):
        with pytest.raises(ValueError, match=r"reads commas|seems to have no header") as e:
            read()
        assert "yes" not in str(e.value)


@pytest.mark.parametrize("rest", ["\r41.7731,88\r5.0917,2\r", "\r41.7731,88\n5.0917,2\n"])
def test_a_confirmed_header_ends_where_its_line_ends(rest, tmp_path):
    # To polars a file of carriage returns is one line, and all of it was names.
    path = tmp_path / "x.csv"
    path.write_text(f"age,height{rest}", newline="")
    for read in (
        lambda: read_file(path, header=True),
        lambda: read_table(path, header=True),
        lambda: Party(path, "north", header=True),
    ):
        with pytest.raises(ValueError, match="lines must end in a line feed") as error:
            read()
        quotes_nothing(str(error.value).replace(str(tmp_path), ""))
    path.write_text('age,"a, b","a ""b"""\n1,2,3\n')
    assert read_file(path, header=True).n_features == 3


@pytest.mark.parametrize("suffix", ["", "exact"])
def test_a_declared_category_in_the_first_line_is_a_record(suffix, tmp_path):
    path = written(tmp_path, "female,smokes,Friedegund", rest="male,smokes,x\nfemale,never,y\n" * 9)
    known = [["female", "male"], ["never", "smokes"], ["x", "y", "Friedegund"]]
    more = {"epsilon": None} if suffix else {}
    model = CategoricalMixture(1, categories=known, **more)
    with pytest.raises(ValueError, match="seems to have no header") as error:
        model.fit(path)
    quotes_nothing(error.value)
    if suffix:  # read off the data, they are known too
        with pytest.raises(ValueError, match="seems to have no header"):
            CategoricalMixture(1, epsilon=None).fit(path)
    else:
        with pytest.raises(ValueError, match="seems to have no header"):
            Party(path, "north", categories=known)
    fitted = model.fit(
        read_table(written(tmp_path, "sex,habit,code", "y.csv", "male,never,x\n" * 9))
    )
    with pytest.raises(ValueError, match="no column 'sex'"):
        fitted.score(path)
    unnamed = CategoricalMixture(1, categories=known, **more).fit([["male", "never", "x"]] * 9)
    with pytest.raises(ValueError, match="seems to have no header"):
        unnamed.score(path)
    assert len(read_table(path, header=False)) == 19
    assert model.fit(read_table(path, header=False)).feature_names_in_.tolist() == [
        "x0",
        "x1",
        "x2",
    ]


def test_header_true_confirms_and_header_false_makes_it_data(tmp_path):
    path = written(tmp_path, "2020,2021,2022")
    assert read_file(path, header=True).names == ["2020", "2021", "2022"]
    rows = read_file(path, header=False)
    assert rows.names == ["x0", "x1", "x2"]
    assert next(rows.blocks(9)).X[0].tolist() == [2020, 2021, 2022]
    assert read_file(path, ["x2"], weight="x0", target="x1", header=False).names == ["x2", "x1"]
    model = GaussianMixture(1, epsilon=None).fit(read_file(path, header=False))
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert len(model.predict(read_file(path, header=False))) == 4
    assert Party(path, "p", header=True).columns == ("2020", "2021", "2022")
    assert Party(path, "p", "x1", header=False).columns == ("x0", "x2", "x1")
    words = ["2020", "2021", "2022", *"123456789", "10"]
    assert Party(path, "p", categories=words, header=False).columns == ("x0", "x1", "x2")
    with pytest.raises(TypeError, match="header= is for files"):
        Party(np.eye(3), "p", header=True)


def test_names_that_the_caller_gave_need_no_confirming(tmp_path):
    path = written(tmp_path, "2020,2021,2022")
    assert read_file(path, ["2022", "2020"], weight="2021").names == ["2022", "2020"]
    with pytest.raises(ValueError, match="seems to have no header"):  # one is nobody's
        read_file(path, ["2022", "2020"])
    with pytest.raises(ValueError, match="seems to have no header"):
        read_file(path, weight="2020", groups="2021")
    model = GaussianMixture(1, epsilon=None).fit(read_file(path, header=True))
    assert len(model.predict(path)) == 3


def test_opened_rows_have_the_names_of_the_fit(tmp_path):
    """Else a confirmed header in another order, or another file, would be taken by position."""
    path, other = written(tmp_path, "a,b,c"), written(tmp_path, "Friedegund,b,a", "other.csv")
    bare = written(tmp_path, "1,2,3", "bare.csv")
    model = KMeans(1, epsilon=None).fit(path)
    line = RegressionMixture(1, epsilon=None).fit(path, "c")
    assert len(model.predict(read_file(path, header=True))) == 3
    assert len(line.log_likelihood(read_file(path, target="c"), None)) == 3
    for attempt in (
        lambda: model.predict(read_file(other, header=True)),
        lambda: model.predict(read_file(bare, header=False)),
        lambda: line.predict(read_file(other, ["b", "a"])),
        lambda: line.log_likelihood(read_file(other, target="b"), None),
    ):
        with pytest.raises(ValueError, match="match those of the fit") as error:
            attempt()
        quotes_nothing(error.value)
    assert len(model.predict(tmp_path / "x.csv")) == 3


def test_every_file_of_a_folder_begins_with_the_same_line(tmp_path):
    written(tmp_path, "a,b,c", "1.csv")
    written(tmp_path, "41.7731,5.0917,88.1", "2.csv")
    for header in (None, True):
        with pytest.raises(ValueError, match="same first line") as error:
            read_file(tmp_path, header=header)
        quotes_nothing(error.value)
    written(tmp_path, "a,b,c", "2.csv")
    assert len(next(read_file(tmp_path).blocks(9)).X) == 6
    written(tmp_path, "41.7731,5.0917,88.1", "1.csv")
    written(tmp_path, "41.7731,5.0917,88.1", "2.csv")
    with pytest.raises(ValueError, match="seems to have no header"):
        read_file(tmp_path)
    assert sum(len(block.X) for block in read_file(tmp_path, header=False).blocks(9)) == 8


def test_no_message_quotes_a_header_that_nobody_has_confirmed(tmp_path):
    rest = "1,2,3\n" * 300
    path = written(tmp_path, "Friedegund,b,c", rest=rest)
    text = written(tmp_path, "Friedegund,b,c", "text.csv", "x,2,3\n" * 3)
    gap = written(tmp_path, "Friedegund,b,c", "gap.csv", "1,2,3\n,2,3\n")
    word = written(tmp_path, "Friedegund,b,c", "word.csv", rest + "x,2,3\n")
    huge = written(tmp_path, "Friedegund,b,c", "huge.csv", "1e300,2,3\n-1e300,3,1\n")
    exact, private = {"epsilon": None}, {"epsilon": 1.0}
    attempts = [
        lambda: read_file(path, ["wage"]),
        lambda: read_file(path, weight="wage"),
        lambda: read_file(path, groups="wage"),
        lambda: read_file(path, without="wage"),
        lambda: read_file(path, target="wage"),
        lambda: read_file(path, types={"wage": "int8"}),
        lambda: read_file(text),
        lambda: KMeans(1, **exact).fit(gap),
        lambda: KMeans(1, **private, bounds=9.0).fit(gap),
        lambda: KMeans(1, **exact).fit(word),
        lambda: KMeans(1, **private, bounds=9.0).fit(word),
        lambda: KMeans(1, bounds={"wage": (0, 1)}).fit(path),
        lambda: KMeans(1, **exact).fit(huge),
        lambda: FactorAnalysis(1, **exact).fit(huge),
        lambda: GaussianMixture(1, **exact).fit(huge),
        lambda: RegressionMixture(1, **exact).fit(huge, "b"),
        lambda: SymmetricMixture(**exact).fit(huge),
        lambda: RegressionMixture(1).fit(path, "wage"),
        lambda: CategoricalMixture(1, categories={"wage": ["1"]}).fit(path),
        lambda: CategoricalMixture(1, **exact).fit(path, sample_weight="wage"),
        lambda: CategoricalMixture(1, **exact, categories=["1", "2"]).fit(path),
        lambda: CategoricalMixture(1, **exact).fit(gap),
        lambda: GaussianMixture(1, **exact).fit(pl.DataFrame({"wage": [1.0, 2.0]})).score(path),
        lambda: Party(path, "p", "wage"),
        lambda: Party(path, "p", categories=["1"], groups="wage"),
        lambda: Party(text, "p"),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError) as error:  # noqa: PT011 (whatever it says)
            attempt()
        quotes_nothing(error.value)
    for options in (
        ["--columns", "wage"],
        ["--weight", "wage"],
        ["--groups", "wage"],
        ["--type", "wage=int8"],
        ["--bound", "wage=0:1"],
        ["-m", "categorical", "--category", "wage=1,2"],
        ["-m", "categorical", "--category", "wage=1,2", "--columns", "wage"],
        ["-m", "regression-mixture", "--target", "wage"],
    ):
        done = CliRunner().invoke(
            app, ["fit", str(path), "-k", "1", "-o", str(tmp_path / "m.json"), *options]
        )
        assert done.exit_code in (2, 3), done.output
        quotes_nothing(done.output)
    at_a_shell = command("fit", huge, "--exact", "-k", 1, "-o", tmp_path / "m.json", code=3)
    assert "overflow" in quotes_nothing(at_a_shell)
    with pytest.warns(UserWarning, match="unlike the bounds of 'number 1'"):
        MissingCovariateRegression(bounds=([9, -5], [60, 5]), target_bounds=(-9, 9)).fit(path, "c")
    pl.DataFrame({"a": [1.0]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="is for CSV files"):
        read_file(tmp_path / "x.parquet", header=True)
    with pytest.raises(ValueError, match="it has Friedegund, b, c"):
        read_file(path, ["wage"], header=True)


def test_a_file_that_loses_its_header_later_is_not_quoted(tmp_path):
    path = written(tmp_path, "a,b,c")
    rows, party = read_file(path), Party(path, "north")
    written(tmp_path, "41.7731,5.0917,88.1")
    with pytest.raises(ValueError, match="could not be read") as error:
        next(rows.blocks(9))
    quotes_nothing(error.value)
    assert party.columns == ("a", "b", "c")


def test_parties_say_nothing_of_their_first_lines(tmp_path):
    others = [Party(written(tmp_path, "a,b,c", f"{i}.csv"), f"{i}") for i in range(2)]
    odd = Party(written(tmp_path, "Friedegund,b,c"), "odd")
    federation = Federation([*others, odd], protection="plain")
    with pytest.raises(FederationError, match="different column names") as error:
        KMeans(1, epsilon=None).fit(federation)
    quotes_nothing(error.value)
    # A file that changes while the party runs: what leaves is the fixed refusal.
    parties = [Party(written(tmp_path, "a,b,c", f"{i}.csv"), f"{i}") for i in range(3)]
    federation = Federation(parties, protection="plain")
    written(tmp_path, "41.7731,5.0917,88.1", "1.csv")
    with pytest.raises(FederationError, match="could not be answered") as error:
        KMeans(1, epsilon=None).fit(federation)
    quotes_nothing(error.value)


def test_at_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    lines = "\n".join(",".join(map(str, row)) for row in rng.normal(size=(200, 3)).round(3))
    path = written(tmp_path, "2020,2021,2022", rest=lines + "\n")
    out = tmp_path / "m.json"
    fit = ["fit", path, "--exact", "-q", "-o", out]
    assert "--no-header" in command(*fit, "-k", 1, code=3)
    command(*fit, "-k", 1, "--header")
    assert load(out).feature_names_in_.tolist() == ["2020", "2021", "2022"]
    assert "200" in command("score", out, path)  # every name is the model's
    command(*fit, "-k", 1, "--no-header")
    assert "no header" in command("score", out, path, code=3)
    assert "201" in command("score", out, path, "--no-header")
    command(*fit, "-m", "regression-mixture", "-k", 1, "--target", "x2", "--no-header")
    assert "201" in command("score", out, path, "--no-header")
    bounds = [word for name in ("x0", "x1", "x2") for word in ("--bound", f"{name}=-9:9")]
    command("fit", path, "-q", "-o", out, "-k", 1, "--no-header", *bounds)
    assert "private" in command("score", out, path, "--no-header", "--epsilon", 1)
    words = written(tmp_path, "f,yes", "words.csv", rest="m,no\nf,no\n" * 20)
    known = ["--category", "x0=f,m", "--category", "x1=no,yes"]
    fit = ["fit", words, "-q", "-o", out, "-m", "categorical", "-k", 1, *known]
    assert "first line" in command(*fit, code=3)
    command(*fit, "--no-header")
    assert "41" in command("score", out, words, "--no-header")


def test_a_party_at_the_command_line(tmp_path):
    pytest.importorskip("flwr")
    from privem.cli.federation_run import _rows
    from privem.federation.flower.folders import PartyFolder

    names = [word for name in "abc" for word in ("--party", name)]
    command("federate", "init", tmp_path / "fed", *names, "--columns", "x0,x1,x2")
    place = PartyFolder(tmp_path / "fed" / "a")
    path = written(tmp_path, "41.7731,5.0917,88.1")
    quotes_nothing(command("federate", "party", tmp_path / "fed" / "a", path, code=3))
    rows, _ = _rows(place.terms, path, header=False)
    assert rows.names == ["x0", "x1", "x2"]
    assert len(next(rows.blocks(9)).X) == 4


def test_a_first_line_may_be_long_but_must_end(tmp_path):
    many = [f"column_{j}" for j in range(100_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(many) + "\n" + ",".join(["1"] * len(many)) + "\n")
    assert could_be_data(many) is False
    assert read_header([path], "it", None).names == many
    (tmp_path / "open.csv").write_text('"' + "4" * 200_000)
    with pytest.raises(ValueError, match="not a readable table"):
        read_file(tmp_path / "open.csv")


def test_a_confirmed_header_names_no_column_twice(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,bmi,age\n31,20,31\n")
    with pytest.raises(ValueError, match="names a column twice in its header: age"):
        read_file(path, header=True)
