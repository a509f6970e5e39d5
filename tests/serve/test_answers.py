"""What is asked is answered as the library does."""

import numpy as np
import pytest

import csrr
from csrr.serve.guard import Limits


@pytest.fixture(scope="module")
def model(model_file):
    return csrr.load(model_file)


def items_of(answer, place=0):
    return [each["item"] for each in answer["lists"][place]["items"]]


def test_a_user_gets_the_list_of_the_library(client, model):
    status, answer = client.get("/v1/recommendations", user=7, k=5)
    recs = model.recommend(7, 5)
    assert status == 200
    assert items_of(answer) == recs.items[0].tolist()
    first = answer["lists"][0]["items"][0]
    assert first["score"] == pytest.approx(recs.scores[0, 0])
    assert first["probability"] == pytest.approx(recs.probabilities[0, 0])
    assert first["title"] == recs.titles[0, 0]
    assert answer["lists"][0]["status"] == "known"


def test_several_users_of_whom_one_is_unknown(client, model):
    _, answer = client.post("/v1/recommendations", {"users": [7, "9", 99], "k": 4})
    assert [each["status"] for each in answer["lists"]] == ["known", "known", "unknown"]
    assert [items_of(answer, place) for place in (0, 1)] == model.recommend([7, 9], 4).items.tolist()
    with pytest.warns(csrr.NoHistoryWarning):
        assert items_of(answer, 2) == model.recommend_for([], 4).items[0].tolist()


def test_a_history(client, model):
    _, answer = client.post("/v1/recommendations", {"history": [3, 5, 9999], "k": 4})
    assert items_of(answer) == model.recommend_for([3, 5], 4).items[0].tolist()
    assert answer["lists"][0]["status"] == "history"


def test_exclusions_candidates_rules_columns_and_limits(client, model):
    asked = {"candidates": list(range(20)), "exclude": [4], "rules": {"where": {"genre": "Rock"}}, "columns": ["genre"]}
    _, answer = client.post("/v1/recommendations", {"user": 7, "k": 6, **asked})
    rules = {"candidates": list(range(20)), "exclude": [4], "where": {"genre": "Rock"}}
    assert items_of(answer) == model.recommend(7, 6, **rules).items[0].tolist()
    assert {each["columns"]["genre"] for each in answer["lists"][0]["items"]} == {"Rock"}
    chances = model.recommend(7, 40).probabilities[0]
    least = float(chances[chances > 0].mean())
    _, answer = client.post("/v1/recommendations", {"user": 7, "k": 40, "min_probability": least})
    likely = model.recommend(7, 40, min_probability=least).items[0]
    assert items_of(answer) == [each for each in likely.tolist() if each is not None]
    assert 0 < len(items_of(answer)) < len(chances)
    assert client.post("/v1/recommendations", {"user": 7, "min_probability": "cost"})[0] == 200


def test_reasons_sum_to_the_score(client, model):
    _, answer = client.get("/v1/recommendations", user=7, k=2, explain=100)
    for place in answer["lists"][0]["items"]:
        assert sum(each["amount"] for each in place["because"]) == pytest.approx(place["score"], rel=1e-4)
    _, answer = client.get("/v1/explanation", user=7, item=3)
    reasons = model.explain(7, 3)
    assert [each["item"] for each in answer["because"]] == reasons.items.tolist()
    assert answer["because"][0]["neighbors"] == pytest.approx(float(reasons.neighbors[0]))


def test_reasons_of_a_history_are_what_the_score_loses_without_an_item(client, model):
    _, answer = client.post("/v1/recommendations", {"history": [3, 5, 9], "k": 2, "explain": 2})
    people = model.fold_in([[3, 5, 9], [5, 9], [3, 9], [3, 5]]).score()
    for place in answer["lists"][0]["items"]:
        lost = dict(zip((3, 5, 9), (people[0] - people[1:])[:, place["item"]].tolist(), strict=True))
        assert [each["item"] for each in place["because"]] == sorted(lost, key=lost.get, reverse=True)[:2]
        assert place["because"][0]["amount"] == pytest.approx(max(lost.values()), rel=1e-4)
    status, answer = client.post("/v1/recommendations", {"history": list(range(40)) * 3, "k": 2, "explain": 2})
    assert (status, answer["lists"][0]["items"]) == (200, [])


def test_similar_and_probable(client, model):
    _, answer = client.get("/v1/similar/items", id=3, k=4)
    assert [each["id"] for each in answer["neighbors"]] == model.similar_items(3, 4).ids.tolist()
    _, answer = client.get("/v1/similar/users", id=3, k=4)
    assert [each["id"] for each in answer["neighbors"]] == model.similar_users(3, 4).ids.tolist()
    _, answer = client.get("/v1/probability", user=3, item=4)
    assert answer["probability"] == pytest.approx(model.probability([3], [4]).item())
    assert answer["threshold"] == pytest.approx(0.25)
    assert answer["recommend"] == (answer["probability"] >= 0.25)


def test_events_change_the_next_list(make_client, model_file, model):
    client = make_client(model_file)
    _, before = client.get("/v1/recommendations", user=7, k=5)
    chosen = items_of(before)[:2]
    events = [{"user": "7", "item": item} for item in chosen] + [{"session": "s", "item": 3}, {"user": 7, "item": 777}]
    assert client.post("/v1/events", {"events": events}) == (200, {"stored": 4, "unknown_items": 1})
    _, after = client.get("/v1/recommendations", user=7, k=5)
    own = model.seen_.indices[model.seen_.indptr[7] : model.seen_.indptr[8]]
    assert items_of(after) == model.recommend_for([*own.tolist(), *chosen], 5).items[0].tolist()
    assert not set(items_of(after)) & set(chosen)
    _, both = client.post("/v1/recommendations", {"users": [7, 9], "k": 5})
    assert [items_of(both, 0), items_of(both, 1)] == [items_of(after), model.recommend(9, 5).items[0].tolist()]
    _, session = client.get("/v1/recommendations", session="s", k=5)
    assert items_of(session) == model.recommend_for([3], 5).items[0].tolist()
    _, nobody = client.get("/v1/recommendations", session="t", k=5)
    assert nobody["lists"][0]["status"] == "unknown"


def test_an_event_that_the_model_knows_changes_nothing(make_client, model_file, model):
    client = make_client(model_file)
    known = int(model.seen_.indices[model.seen_.indptr[7]])
    client.post("/v1/events", {"events": [{"user": 7, "item": known}]})
    _, answer = client.get("/v1/recommendations", user=7, k=5)
    assert answer["lists"][0]["items"][0]["score"] == pytest.approx(float(model.recommend(7, 1).scores[0, 0]), rel=1e-6)


def test_with_order_events_are_a_session(make_client, tmp_path):
    rows = [
        (user, item, t) for user in range(30) for t, item in enumerate(np.random.default_rng(user).permutation(12)[:8])
    ]
    table = dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True))
    fitted = csrr.CSRR(order="next", decay=0.8, max_rank=3, neighbors=4, reg_neighbors=1.0).fit(
        csrr.read(
            {name: [str(each) for each in column] if name != "time" else column for name, column in table.items()}
        )
    )
    fitted.save(tmp_path / "order.csrr")
    client = make_client(tmp_path / "order.csrr")
    own = fitted.session(user="4").history.tolist()
    fresh = [item for item in fitted.items_ if item not in own][:2]
    events = [fresh[0], own[0], fresh[1]]
    client.post("/v1/events", {"events": [{"user": 4, "item": int(item)} for item in events]})
    session = fitted.session(user="4")
    for item in events:
        session.add(item)
    _, answer = client.get("/v1/recommendations", user=4, k=3)
    recs = session.recommend(3)
    assert items_of(answer) == [each for each in recs.items[0].tolist() if each is not None]
    scores = [each["score"] for each in answer["lists"][0]["items"]]
    assert scores == pytest.approx(recs.scores[0, : len(scores)].tolist(), rel=1e-4)
    _, answer = client.post("/v1/recommendations", {"history": [int(item) for item in events], "k": 1, "explain": 9})
    (place,) = answer["lists"][0]["items"]
    row = fitted.items_.row(str(place["item"]), "item")
    whole, without = fitted.fold_in([events, events[:1] + events[2:]]).score()[:, row]
    (loss,) = [each["amount"] for each in place["because"] if str(each["item"]) == events[1]]
    assert loss == pytest.approx(float(whole - without), abs=1e-5)


def test_with_a_target_what_was_viewed_may_be_recommended(make_client, tmp_path, log):
    kinds = np.where(np.arange(len(log)) % 3 == 0, "buy", "view")
    table = {"user": log.user_rows, "item": log.item_rows, "event": kinds}
    fitted = csrr.CSRR(max_rank=3).fit(csrr.read(table, event="event", target="buy", weights={"view": 1, "buy": 3}))
    fitted.save(tmp_path / "target.csrr")
    client = make_client(tmp_path / "target.csrr")
    _, before = client.get("/v1/recommendations", user=7, k=3)
    viewed, bought = items_of(before)[:2]
    events = [{"user": 7, "item": viewed, "type": "view"}, {"user": 7, "item": bought, "type": "buy"}]
    client.post("/v1/events", {"events": events})
    _, after = client.get("/v1/recommendations", user=7, k=40)
    assert viewed in items_of(after)
    assert bought not in items_of(after)


def test_model_health_and_metrics(client, model):
    _, info = client.get("/v1/model")
    assert (info["kind"], info["n_users"], info["problem"]) == ("CSRR", 60, None)
    assert info["id_types"] == {"user": "integer", "item": "integer"}
    assert client.get("/v1/health") == (200, {"status": "ok"})
    assert client.get("/v1/ready") == (200, {"status": "ok"})
    client.get("/v1/recommendations", user=7)
    status, text = client.get("/metrics")
    assert status == 200
    found = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
    n = int(found['csrr_requests_total{route="/v1/recommendations",status="200"}'])
    assert n == int(found['csrr_request_seconds_bucket{route="/v1/recommendations",le="+Inf"}']) > 0


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"", 400, "cannot be read"),
        (b'{"user": 7', 400, "cannot be read"),
        (b'{"user": "\xff"}', 400, "cannot be read"),
        (b'{"rules": {"where": {"a":' + b"[" * 100_000, 400, "cannot be read"),
        ({"user": []}, 422, "$.user"),
        ({"user": 7, "k": 0}, 422, "$.k"),
        ({"user": 7, "k": 10**30}, 422, "1000 items"),
        ({"user": 7, "k": 1001}, 422, "1000 items"),
        ({"user": 7, "users": [7]}, 422, "one of user"),
        ({}, 422, "one of user"),
        ({"users": [1] * 101}, 422, "101"),
        ({"history": [1] * 1001}, 422, "1,001"),
        ({"user": 7, "candidates": [1] * 10_001}, 422, "10,001"),
        ({"user": 7, "path": "/etc/passwd"}, 422, "path"),
        ({"user": 7, "rules": {"where": {"nothing": 1}}}, 422, "nothing"),
        ({"user": 7, "rules": {"boost": {"genre": {"Rock": -1}}}}, 422, "boost"),
        ({"user": 7, "rules": {"at_most": {"genre": "many"}}}, 422, "at_most"),
        ({"user": 7, "columns": ["nothing"]}, 422, "nothing"),
    ],
)
def test_what_is_wrong_is_said(client, body, status, part):
    found, answer = client.post("/v1/recommendations", body)
    assert (found, part in answer["error"]) == (status, True), answer


@pytest.mark.parametrize(
    ("event", "part"),
    [
        ({"item": 3}, "one of user and session"),
        ({"user": 1, "session": "s", "item": 3}, "one of user and session"),
        ({"user": "ann", "item": 3}, "integers"),
        ({"user": 1, "item": "x"}, "integers"),
        ({"user": 1, "item": 2**70}, "integers"),
        ({"user": 1}, "item"),
    ],
)
def test_events_that_an_update_could_not_read_are_refused(client, event, part):
    status, answer = client.post("/v1/events", {"events": [event]})
    assert (status, part in answer["error"]) == (422, True), answer


def test_unknown_ids_and_paths(client):
    assert client.get("/v1/similar/items", id="nothing")[0] == 404
    assert client.get("/v1/explanation", user=7, item=999)[0] == 404
    assert client.get("/v1/nothing")[0] == 404
    assert client.get("/ui/../../../etc/passwd")[0] == 404
    assert client.ask("DELETE", "/v1/model")[0] == 405
    assert client.headers["allow"] == "GET, HEAD"


def test_what_a_model_cannot_do_is_said(make_client, tmp_path, log):
    csrr.PopRank().fit(log).save(tmp_path / "popular.csrr")
    client = make_client(tmp_path / "popular.csrr")
    assert client.get("/v1/recommendations", user=7, k=3)[0] == 200
    for path, query in {"similar/items": {"id": 3}, "explanation": {"user": 7, "item": 3}}.items():
        status, answer = client.get(f"/v1/{path}", **query)
        assert (status, "PopRank" in answer["error"]) == (422, True), answer
    client.post("/v1/events", {"events": [{"user": 7, "item": 3}]})
    assert client.get("/v1/recommendations", user=7, k=3)[0] == 200


def test_bodies_and_their_types(make_client, model_file):
    client = make_client(model_file, limits=Limits(body=100))
    assert client.post("/v1/recommendations", {"history": [1] * 100})[0] == 413
    assert client.ask("POST", "/v1/recommendations", b"x" * 50, headers={"content-length": "1000"})[0] == 413
    for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
        assert client.ask("POST", "/v1/events", b"{}", headers={"content-type": kind})[0] == 415
