"""Mixed tables over real processes: a schema file, a party's own limit, its account."""

from __future__ import annotations

import json

from privem import load

from ..test_schemas import FILE, NAMES, PARTIES, people
from .conftest import Stage

FIT = "privem federate run fed/server -m table --target smoker --epsilon 1 --seed 1 --json"


def test_from_a_schema_to_a_model(stage: Stage):
    (stage.folder / "schema.toml").write_text(FILE)
    names = " ".join(f"--party {name}" for name in PARTIES)
    stage.do(f"privem federate init fed {names} --schema schema.toml --rows 2000")
    stage.start("server", "privem federate server fed/server")
    for seed, name in enumerate(PARTIES):
        people(200, seed).write_csv(stage.folder / f"{name}.csv")
        stage.start(name, f"privem federate party fed/{name} {name}.csv --epsilon 1")
    stage.connected()
    said = json.loads(stage.do(f"{FIT} -o model.json"))
    assert said["private"]
    assert said["attendance"]["took part"] == list(PARTIES)
    assert said["rounds"] == 3  # the count, cells, tables
    model = load(stage.folder / "model.json")
    assert model.privacy_.epsilon == 1.0
    assert model.schema_.names == NAMES
    assert model.target == "smoker"
    assert model.sample_frame(20).columns == NAMES
    account = json.loads(stage.do("privem federate status fed/north --json"))
    assert 0.5 < account["epsilon_spent"] <= 1.0
    # What is left of the parties' own limits pays for no second fit.
    assert "refused" in stage.do(f"{FIT} -o again.json", code=7)
    assert not (stage.folder / "again.json").exists()
