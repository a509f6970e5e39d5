import csrr
from tests.cli.conftest import as_json, in_process


def test_similar_items_and_users_are_those_of_python(model, model_file):
    told = as_json("similar", model_file, "--item", "7", "-k", 4)
    assert told == {"of": 7, "neighbors": model.similar_items(7, 4).to_arrow().to_pylist()}
    told = as_json("similar", model_file, "--user", "7", "-k", 4)
    assert told == {"of": 7, "neighbors": model.similar_users(7, 4).to_arrow().to_pylist()}


def test_the_table_of_similar_items_has_titles(model, model_file):
    lines = in_process("similar", model_file, "--item", 7, "-k", 2).stdout.splitlines()
    assert lines[0].split() == ["id", "title", "score"]
    assert model.similar_items(7, 2).titles[0] in lines[1]


def test_similar_needs_an_item_or_a_user(model_file):
    for args in ((), ("--item", 1, "--user", 1)):
        result = in_process("similar", model_file, *args)
        assert (result.exit_code, "one of --item and --user" in result.stderr) == (2, True)


def test_similar_says_what_comes_after_an_item(log, model_file, tmp_path):
    table = {"user": log.user_rows, "item": log.item_rows}
    model = csrr.CSRR(order="next", decay=0.5, reg_low_rank="noise", neighbors=5, reg_neighbors=1.0)
    model.fit(csrr.read(table, ordered=True)).save(tmp_path / "next.csrr")
    found = [as_json("similar", tmp_path / "next.csrr", "--item", 7, "--by", by) for by in ("next", "factors")]
    assert [each["neighbors"] for each in found] == [
        model.similar_items(7, 10, by=by).to_arrow().to_pylist() for by in ("next", "factors")
    ]
    assert found[0] != found[1]
    csrr.EASE().fit(log).save(tmp_path / "ease.csrr")
    for given, words in (
        ((model_file, "--item", 7, "--by", "next"), "needs a model of what comes next"),
        ((model_file, "--user", 7, "--by", "next"), "--by goes with --item"),
        ((tmp_path / "ease.csrr", "--item", 7, "--by", "next"), "by='next' must be \"auto\": EASE knows one"),
    ):
        result = in_process("similar", *given)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_info_tells_size_parameters_and_certificate(log, model, model_file):
    told = as_json("info", model_file)
    assert told["kind"] == "CSRR"
    assert told["bytes"] == model_file.stat().st_size
    assert (told["n_users"], told["n_items"], told["n_events"]) == (80, log.n_items, len(log))
    assert told["params"] == model.get_params()
    assert told["certificate"] == model.certificate_.to_dict()
    text = in_process("info", model_file).stdout
    assert str(model.certificate_) in text
    assert "reg_sparse = auto" in text


def test_info_of_a_model_without_certificate(log, tmp_path):
    csrr.PopRank().fit(log).save(tmp_path / "pop.csrr")
    assert as_json("info", tmp_path / "pop.csrr")["certificate"] is None
    assert in_process("info", tmp_path / "pop.csrr").stdout.startswith("PopRank")
    result = in_process("similar", tmp_path / "pop.csrr", "--item", 1)
    assert result.exit_code == 2
    assert "PopRank does not say which items are alike; these do: CSRR, " in result.stderr


def test_info_says_what_the_fit_settled(log, tmp_path):
    for model, names in (
        (csrr.CSRR(), {"rank_", "l1_", "l2_"}),
        (csrr.WRMF(), {"reg_"}),
        (csrr.EASE(), {"reg_"}),
        (csrr.PopRank(), set()),
    ):
        model.fit(log).save(tmp_path / "m.csrr")
        found = as_json("info", tmp_path / "m.csrr")["found"]
        assert found == {name: getattr(model, name) for name in names}
        said = in_process("info", tmp_path / "m.csrr").stdout
        assert said.count("(found by the fit)") == len(names)
