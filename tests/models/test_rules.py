"""Item tables in models, and rules in what they answer: what is asked for, what is refused, what is kept in files."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

import csrr
from csrr import DataError, ModelFileError, ParameterError
from csrr.data.log import Log
from csrr.models.recommend import score_popular
from csrr.models.store import read, write

pytestmark = pytest.mark.filterwarnings("ignore::csrr.NoHistoryWarning")
GENRES = np.array(["Indie", "RPG", "Indie|RPG", None], object)
MODELS = [csrr.EASE(reg=10.0), csrr.WRMF(rank=4, reg=0.1, max_iter=5), csrr.PopRank(), csrr.ItemKNN()]


@pytest.fixture(scope="module")
def timed(log):
    """The same events with times; user 5 has none."""
    kept = log.user_rows != 5
    times = 1000.0 * log.item_rows + np.arange(len(log))
    return Log(log.users, log.items, log.user_rows[kept], log.item_rows[kept], times=times[kept], titles=log.titles)


@pytest.fixture(scope="module")
def items():
    n = 60
    return csrr.read_items(
        {
            "item": np.arange(n),
            "title": [f"T{i}" if i else None for i in range(n)],
            "genre": GENRES[np.arange(n) % 4],
            "maker": [f"m{i % 7}" for i in range(n)],
            "price": np.where(np.arange(n) % 10 == 0, np.nan, np.arange(n)),
            "margin": 1 + np.arange(n) % 3,
            "in_stock": np.arange(n) % 2 == 0,
            "released": np.datetime64("2020-01-01", "s") + 86400 * np.arange(n),
        }
    )


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def model(request, timed, items):
    return type(request.param)(**request.param.get_params()).fit(timed).set_items(items)


def genres_of(recs):
    return [[set((text or "").split("|")) - {""} for text in row] for row in recs.columns["genre"]]


def test_titles_are_those_of_the_table_and_else_of_the_log(model, log):
    assert model.titles_[1] == "T1"
    assert model.titles_[0] == log.titles[0]
    recs = model.recommend([3, 4], k=5, columns=["genre", "price", "in_stock"])
    frame = recs.to_frame()
    assert list(frame.columns) == ["user", "item", "rank", "score", "title", "genre", "price", "in_stock"]
    for row in frame.itertuples():
        assert row.in_stock == (row.item % 2 == 0)
        assert pd.isna(row.price) if row.item % 10 == 0 else row.price == row.item
    assert recs[1].columns["genre"].tolist() == recs.columns["genre"][1:].tolist()
    if type(model).can("explain"):
        reasons = model.explain(3, 1)
        assert reasons.title == "T1"
    if type(model).can("similar_items"):
        assert set(model.similar_items(1, k=3).titles) <= set(model.titles_)


def test_conditions_hold_in_all_lists(model):
    recs = model.recommend([3, 4], k=8, where={"in_stock": True, "price": (5, 50)})
    assert ((recs.items % 2 == 0) & (recs.items >= 5) & (recs.items <= 50) & (recs.items % 10 > 0)).all()
    few = model.recommend([3], k=8, where={"in_stock": True, "price": (5, 8)}, exclude_seen=False)
    assert sorted(few.items[0].tolist()) == [6, 8]


def test_where_nothing_is_left_lists_are_empty(model):
    rules = {
        "boost": "margin",
        "at_most": {"genre": 1},
        "at_least": {"genre": {"RPG": 1}},
        "diversity": 0.5,
        "fresh": 9,
    }
    recs = model.recommend([3, 4], k=3, where={"price": (1000, None)}, columns=["genre"], **rules)
    assert recs.items.shape == (2, 0)
    few = model.recommend([3, 4], k=3, candidates={3: [1], 4: []}, exclude_seen=False, columns=["genre"], **rules)
    assert few.items.tolist() == [[1], [None]]
    assert few.columns["genre"].tolist() == [["RPG"], [None]]


def test_candidates_and_conditions_go_together(model):
    recs = model.recommend(3, k=5, candidates=[1, 2, 3, 4], where={"in_stock": True}, exclude_seen=False)
    assert sorted(recs.items[0].tolist()) == [2, 4]


def test_caps_by_category(model):
    recs = model.recommend(np.arange(20), k=12, at_most={"maker": 2}, columns=["maker"])
    for row in recs.columns["maker"]:
        assert pd.Series(row).value_counts().max() <= 2
    both = model.recommend([3, 4], k=30, at_most={"genre": 3}, columns=["genre"], exclude_seen=False)
    for row in genres_of(both):
        assert max(sum("Indie" in each for each in row), sum("RPG" in each for each in row)) <= 3
    # Without a category an item may always enter: 15 of 60, and three or more of the others.
    assert ((both.items != None).sum(axis=1) >= 18).all()  # noqa: E711
    one = model.recommend([3], k=10, at_most={"genre": {"RPG": 1}}, columns=["genre"])
    assert sum("RPG" in each for each in genres_of(one)[0]) <= 1


def test_caps_that_never_bind_change_nothing(model):
    plain, capped = model.recommend(k=10), model.recommend(k=10, at_most={"genre": 50})
    np.testing.assert_array_equal(plain.items, capped.items)
    np.testing.assert_array_equal(plain.scores, capped.scores)


def test_quotas_by_category(model):
    plain = model.recommend([3, 4], k=6, columns=["genre"])
    recs = model.recommend([3, 4], k=6, at_least={"genre": {"RPG": 5, "Indie": 1}}, columns=["genre"])
    for row in genres_of(recs):
        assert sum("RPG" in each for each in row) >= 5
        assert sum("Indie" in each for each in row) >= 1
    assert len(genres_of(plain)) == 2


def test_boosts_lift_and_lower(model):
    low = [item for item in model.recommend([3], k=60).items[0] if item is not None][-1]
    for factor, is_first in ((1e9, True), (1e-9, False)):
        items = model.recommend([3], k=5, boost={low: factor}).items[0]
        assert (items[0] == low) == is_first
        assert (low in items) == is_first
    many = model.recommend(k=10, boost={"genre": {"RPG": 20.0}}, columns=["genre"])
    plain = model.recommend(k=10, columns=["genre"])
    count = [sum("RPG" in each for row in genres_of(recs) for each in row) for recs in (many, plain)]
    assert count[0] > count[1]


def test_a_boost_by_series_or_column_or_dict_is_the_same(model):
    wanted = {item: float(1 + item % 3) for item in range(60)}
    first = model.recommend(k=10, boost=wanted)
    for boost in (pd.Series(wanted), "margin", {item: 7 * factor for item, factor in wanted.items()}):
        np.testing.assert_array_equal(model.recommend(k=10, boost=boost).items, first.items)
    assert (first.items != model.recommend(k=10).items).any()


def test_scores_are_the_models_own_under_any_rule(model):
    recs = model.recommend([3, 4], k=6, boost="margin", diversity=0.4, fresh=5000, at_most={"genre": 4})
    for user, items, scores in zip(recs.users, recs.items, recs.scores, strict=True):
        np.testing.assert_allclose(model.score(user, items), scores, rtol=1e-5, atol=1e-6)


def test_what_is_fresh_moves_up(model, timed):
    first = np.array([timed.times[timed.item_rows == item].min(initial=np.inf) for item in range(60)])
    wanted = np.where(np.isfinite(first), timed.times.max() - first, np.inf)
    np.testing.assert_allclose(model.item_ages, wanted)
    plain, fresh = model.recommend(k=10), model.recommend(k=10, fresh={"half_life": 5000, "factor": 50})
    assert model.item_ages[fresh.items.astype(int)].mean() < model.item_ages[plain.items.astype(int)].mean()
    dated = model.recommend(k=10, fresh={"half_life": "5d", "factor": 50, "by": "released"})
    assert dated.items.mean() > plain.items.mean()


@pytest.mark.parametrize("half_life", ["14d", "2 weeks", timedelta(days=14), 14 * 86_400])
def test_a_half_life_may_be_told_in_several_ways(model, half_life):
    weeks = model.recommend(k=10, fresh={"half_life": "2w", "factor": 50, "by": "released"})
    found = model.recommend(k=10, fresh={"half_life": half_life, "factor": 50, "by": "released"})
    np.testing.assert_array_equal(found.items, weeks.items)


def test_diversity_by_likeness_and_by_column(model):
    plain = model.recommend(k=8, columns=["maker"])
    by = model.recommend(k=8, diversity=0.9, diversity_by="maker", columns=["maker"])
    count = [np.mean([len(set(row)) for row in recs.columns["maker"]]) for recs in (plain, by)]
    assert count[1] > count[0]
    none = model.recommend(k=8, diversity=0)
    np.testing.assert_array_equal(none.items, plain.items)
    vectors = model.item_vectors
    np.testing.assert_allclose(
        np.linalg.norm(vectors[np.diff(model.seen_.tocsc().indptr) > 0], axis=1),
        1,
        atol=0.5 if not model.has_factors else 1e-5,
    )


def test_people_without_a_history_get_what_is_popular_by_the_rules(model):
    if model.knows_everyone:
        pytest.skip("scores mean something for everyone")
    plain = model.recommend(5, k=10)
    recs = model.recommend(5, k=10, where={"in_stock": True}, at_most={"maker": 1}, columns=["maker"])
    lifted = model.recommend(5, k=3, boost={11: 1e9})
    order = np.argsort(-score_popular(model), kind="stable")
    assert plain.items[0, 0] == order[0]
    assert recs.fallback.all()
    assert (recs.scores[recs.scores > -np.inf] == 0).all()
    assert pd.Series(recs.columns["maker"][0]).dropna().value_counts().max() == 1
    assert lifted.items[0, 0] == 11


def test_new_people_and_one_history_follow_the_rules(model):
    people = model.fold_in([[1, 5, 9], [2, 4]]).recommend(
        6, where={"in_stock": True}, columns=["in_stock"], at_least={"genre": {"RPG": 2}}
    )
    assert all(people.columns["in_stock"].ravel())
    one = model.recommend_for([1, 5, 9], k=4, boost={"genre": {"RPG": 1e9}}, columns=["genre"])
    assert all("RPG" in each for each in genres_of(one)[0])


def test_threads_do_not_matter(model):
    options = {"boost": "margin", "diversity": 0.5, "at_most": {"genre": 4}, "k": 10}
    np.testing.assert_array_equal(
        model.recommend(threads=1, **options).items, model.recommend(threads=2, **options).items
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"boost": {7: 0}}, ParameterError, "factor of item 7, 0, must be a number > 0"),
        ({"boost": {7: -1.0}}, ParameterError, "exclude or where"),
        ({"boost": {7: float("nan")}}, ParameterError, "must be a number > 0"),
        ({"boost": {7: "big"}}, ParameterError, "'big', must be a number"),
        ({"boost": {999: 2.0}}, KeyError, "boost: unknown item id: 999"),
        ({"boost": {"genre": {"Jazz": 2}}}, DataError, "no item has 'genre' 'Jazz'; there are Indie, RPG"),
        ({"boost": {"gerne": {"RPG": 2}}}, DataError, "did you mean 'genre'"),
        ({"boost": "genre"}, ParameterError, "holds categories values, not factors"),
        ({"boost": [1, 2]}, ParameterError, "must be factors by item"),
        ({"at_most": {"genre": 0}}, ParameterError, "whole number >= 1"),
        ({"at_most": {"genre": 1.5}}, ParameterError, "whole number >= 1"),
        ({"at_most": {"price": 1}}, ParameterError, "column 'price' holds number values, not categories"),
        ({"at_most": 3}, ParameterError, "give a dict from columns"),
        ({"at_most": {"nope": 1}}, DataError, "no column 'nope'"),
        ({"at_least": {"genre": 2}}, ParameterError, "needs numbers by category"),
        ({"at_least": {"genre": {"RPG": 11}}}, ParameterError, "asks for 11 items in all, and lists have 10"),
        ({"at_least": {"genre": {"RPG": 2}}, "at_most": {"genre": 1}}, ParameterError, "contradict"),
        ({"diversity": 2}, ParameterError, "diversity=2 must be a number >= 0 and <= 1"),
        ({"diversity": "much"}, ParameterError, "diversity='much'"),
        ({"diversity_by": "genre"}, ParameterError, "give diversity too"),
        ({"diversity": 0.5, "diversity_by": "price"}, ParameterError, "not categories"),
        ({"fresh": "soon"}, ParameterError, "half-life 'soon' must be a number > 0"),
        ({"fresh": -1}, ParameterError, "must be a number > 0"),
        ({"fresh": {"by": "released"}}, ParameterError, "must have half_life"),
        ({"fresh": {"half_life": 1, "by": "genre"}}, ParameterError, "holds texts; write dates"),
        ({"fresh": {"half_life": 1, "factor": 0}}, ParameterError, "factor"),
        ({"where": {"genre": "Jazz"}}, DataError, "no item has 'genre' 'Jazz'"),
        ({"columns": ["nope"]}, DataError, "no column 'nope'"),
        ({"columns": "genre"}, ParameterError, r"columns=\['genre'\]"),
        ({"blend": 3}, TypeError, "recommend has no parameter 'blend'; it has: k, .*where, boost"),
    ],
)
def test_what_makes_no_sense_is_refused(model, options, error, message):
    with pytest.raises(error, match=message):
        model.recommend([3], k=10, **options)


def test_a_column_of_factors_must_be_above_zero(timed, items):
    model = csrr.PopRank().fit(timed).set_items({"item": range(60), "f": [0.0, *[1.0] * 59], "rank": range(60)})
    with pytest.raises(ParameterError, match="gives item 0 the factor 0; it must be > 0"):
        model.recommend(3, boost="f")
    with pytest.raises(ParameterError, match="a column 'rank' of its own"):
        model.recommend(3, columns=["rank"])


@pytest.mark.parametrize(
    "options",
    [{"where": {"a": 1}}, {"at_most": {"a": 1}}, {"boost": "a"}, {"columns": ["a"]}, {"boost": {"a": {"b": 1}}}],
)
def test_without_an_item_table_columns_are_refused(timed, options):
    with pytest.raises(ParameterError, match=r"call set_items\(table\) first"):
        csrr.PopRank().fit(timed).recommend(3, **options)


def test_freshness_needs_times(log):
    with pytest.raises(ParameterError, match="training log had no times; fit it to a log with times, or name a column"):
        csrr.PopRank().fit(log).recommend(3, fresh="30d")


def test_unknown_items_of_a_boost_can_be_ignored(model):
    with pytest.warns(csrr.UnknownIdWarning, match="1 of 2 in boost"):
        model.recommend(3, k=3, boost={7: 2.0, 999: 3.0}, unknown="ignore")


def test_a_new_fit_drops_the_table(timed, items):
    model = csrr.PopRank().fit(timed).set_items(items)
    assert model.fit(timed).item_table_ is None
    with pytest.raises(csrr.NotFittedError):
        csrr.PopRank().set_items(items)


def test_the_table_is_kept_in_the_file(model, tmp_path):
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert again.item_table_.to_arrow().equals(model.item_table_.to_arrow())
    np.testing.assert_array_equal(again.item_ages, model.item_ages)
    options = {"diversity": 0.5, "fresh": 4000, "at_most": {"genre": 3}, "columns": ["genre", "released"]}
    assert again.recommend(k=8, **options).to_arrow().equals(model.recommend(k=8, **options).to_arrow())
    again.save(tmp_path / "again.csrr")
    assert (tmp_path / "again.csrr").read_bytes() == (tmp_path / "m.csrr").read_bytes()


@pytest.fixture(scope="module")
def file(timed, items, tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "m.csrr"
    csrr.PopRank().fit(timed).set_items(items).save(path)
    return path


def changed(file, tmp_path, change):
    header, arrays = read(file)
    arrays = dict(arrays)
    change(arrays)
    write(tmp_path / "m.csrr", header, arrays)
    return tmp_path / "m.csrr"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update({"item_table.kinds": a["item_table.kinds"] + 100}), "'item_table.kinds' has values"),
        (lambda a: a.update({"item_table.kinds": a["item_table.kinds"][:-1]}), "item_table"),
        (lambda a: a.update({"item_table.kinds": a["item_table.kinds"].astype(np.float32)}), "is of type float32"),
        (lambda a: a.pop("item_table.kinds"), "'item_table.kinds' is missing"),
        (lambda a: a.pop("item_table.2"), "'item_table.2' is missing"),
        (lambda a: a.update({"item_table.2": a["item_table.2"][:-1]}), "has shape"),
        (lambda a: a.update({"item_table.9": a["item_table.2"]}), "does not know: 'item_table.9'"),
        (
            lambda a: a.update({"item_table.0.members.indices": a["item_table.0.members.indices"] + 5}),
            "has values from",
        ),
        (lambda a: a.update({"item_table.0.members.indptr": a["item_table.0.members.indptr"][::-1].copy()}), "indptr"),
        (lambda a: a.update({"item_table.5": np.full(60, 2**62)}), "holds what is no date"),
        (lambda a: a.update({"item_table.1.members.indptr": many(a)}), "rows of more than 1 entries"),
        (
            lambda a: a.update({"item_table.1.names.text": a["item_table.1.names.text"] * 0 + 65}),
            "not in order, each once",
        ),
        (lambda a: a.update({"item_ages": a["item_ages"] - 1e9}), "'item_ages' has values"),
    ],
)
def test_harmed_tables_are_refused(file, tmp_path, change, message):
    with pytest.raises(ModelFileError, match=message):
        csrr.load(changed(file, tmp_path, change))


def many(arrays):
    """Pointers by which the second item has the maker of the third too."""
    pointers = arrays["item_table.1.members.indptr"].copy()
    pointers[2] += 1
    return pointers


def test_a_model_of_ones_own_keeps_its_table(timed, items, tmp_path):
    @csrr.register
    class Flat(csrr.Recommender):
        def fit(self, data):
            self.remember(self.read(data))
            self.level_ = 1.0
            return self

        def score_histories(self, seen, rows):
            return np.full((len(rows), seen.shape[1]), self.level_, np.float32)

    Flat().fit(timed).set_items(items).save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert again.item_table_.to_arrow().equals(
        items.to_arrow().set_column(1, "title", again.item_table_.to_arrow()["title"])
    )
    assert again.recommend(3, k=2, where={"in_stock": True}).items.shape == (1, 2)


def test_ages_by_a_column_without_end(timed):
    moments = np.linspace(0, 1e308, 60)
    moments[:4] = np.inf, -np.inf, np.nan, -1e308
    model = csrr.PopRank().fit(timed).set_items({"item": np.arange(60), "moment": moments})
    model.recommend(3, k=60, fresh={"half_life": 1e-300, "by": "moment"})
    # Of these no age is known: none is newer than another.
    some = {"k": 3, "candidates": [0, 1, 2]}
    aged = model.recommend(3, fresh={"half_life": 10, "by": "moment"}, **some)
    assert aged.items.tolist() == model.recommend(3, **some).items.tolist()
