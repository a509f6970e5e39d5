import pandas as pd
import pytest

import csrr
from csrr.data.tables import find_role, is_amount

pytestmark = pytest.mark.usefixtures("empty_data_dir")


@pytest.mark.parametrize(
    ("header", "user", "item"),
    [
        ("user_id,Anime_ID", "user_id", "Anime_ID"),
        ("UserID,Game_ID", "UserID", "Game_ID"),
        ("userId,movieId", "userId", "movieId"),
        ("customer_id,product_id,order_id", "customer_id", "product_id"),
        ("CustomerID,StockCode,InvoiceNo", "CustomerID", "StockCode"),
        ("customer-id,sku", "customer-id", "sku"),
        ("user_id,parent_asin", "user_id", "parent_asin"),
        ("reviewerID,asin", "reviewerID", "asin"),
        ("visitorid,itemid,transactionid", "visitorid", "itemid"),
        ("session_id,user_id,item_id", "user_id", "item_id"),
        ("session_id,item id", "session_id", "item id"),
        ("user_id,podcast_id", "user_id", "podcast_id"),
        ("USER ID,Wine Id", "USER ID", "Wine Id"),
        ("user_id,order_id,wine_id,event_id", "user_id", "wine_id"),
        ("user_id,id,recipeId", "user_id", "recipeId"),
        ("session_id,username,sku,product_id", "session_id", "product_id"),
    ],
)
def test_who_and_what_are_found(write, header, user, item):
    names = header.split(",")
    log = csrr.read(write("e.csv", f"{header}\n" + ",".join(f"{name}1" for name in names)))
    assert (log.columns.user, log.columns.item) == (user, item)
    assert (log.users.ids.tolist(), log.items.ids.tolist()) == ([f"{user}1"], [f"{item}1"])
    assert set(log.columns.left_alone) == set(names) - {user, item}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("user_id,wine_id,shop_id", "which column is the item: 'wine_id', 'shop_id'? Say so with item='wine_id'"),
        ("user_id,asin,parent_asin", "which column is the item: 'asin', 'parent_asin'?"),
        ("a_id,b_id", "no column looks like the user; the columns are 'a_id', 'b_id'; name it with user='...'"),
        (
            "user_id,order_id",
            "no column looks like the item; the columns are 'user_id', 'order_id'; name it with item=",
        ),
        ("user_id,id", "no column looks like the item"),
        ("user_id,paid,grid", "no column looks like the item"),
        ("user_id,client_id", "no column looks like the item"),
    ],
)
def test_what_is_not_clear_is_asked_for(write, header, words):
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(write("e.csv", f"{header}\n" + "1," * header.count(",") + "1\n"))
    assert words in str(caught.value)


def test_what_is_given_tells_the_rest(write):
    path = write("e.csv", "movie_id,wine_id,n\n1,2,3\n")
    log = csrr.read(path, user="movie_id")
    assert (log.columns.user, log.columns.item, log.columns.left_alone) == ("movie_id", "wine_id", ("n",))
    with pytest.raises(csrr.DataError, match="the column 'wine_id' cannot be both the user and the item"):
        csrr.read(path, user="wine_id", item="wine_id")


@pytest.mark.parametrize(
    "name", ["rating", "rate", "Rating", "score", "stars", "overall", "star_rating", "User Rating"]
)
def test_ratings_by_name(name):
    log = csrr.read({"user": [1, 1], "item": [1, 2], name: [5, 1]}, min_rating=3)
    assert (log.columns.rating, log.history(1).tolist()) == (name, [1])
    assert "ratings from 3 on count" in repr(log)
    whole = csrr.read({"user": [1, 1], "item": [1, 2], name: [5, 1]})
    assert len(whole) == 2
    assert "every rating counts as a choice, low ones too (min_rating=4 keeps those of 4 and more)" in repr(whole)


@pytest.mark.parametrize(
    ("ratings", "liked"),
    [
        ([1, 2, 3, 4, 5], "4"),
        ([3, 4, 5], "4"),
        ([0.5, 1, 3.5, 5], "4"),
        ([1, 5, 7, 10], "8"),
        ([0, 1], "1"),
        ([-1, 1], "1"),
        ([0, 0.2, 0.4, 1], "0.8"),
        ([1, 3, 6], "5"),
        ([10, 60, 100], "75"),
        ([-9.81, 0.13, 9.66], "5"),
    ],
)
def test_the_rating_that_is_proposed_goes_by_the_scale(ratings, liked):
    log = csrr.read({"user": range(len(ratings)), "item": range(len(ratings)), "rating": ratings})
    assert f"low ones too (min_rating={liked} keeps those of {liked} and more)" in repr(log)
    assert any(each >= log.columns.liked_from for each in ratings)
    assert any(each < log.columns.liked_from for each in ratings)


def test_counts_in_a_column_of_ratings_are_no_ratings():
    table = {"user": range(20), "item": range(20), "rating": [1] * 19 + [5000]}
    assert "its numbers, 1 to 5,000, look like counts, and are not used (weight='rating' uses" in repr(csrr.read(table))
    assert csrr.read(table, weight="rating").weights.max() == 5000
    assert "counts" not in repr(csrr.read(table, weight="rating"))
    same = csrr.read({"user": [1, 2], "item": [1, 2], "rating": [1, 1]})
    assert same.columns.liked_from is None
    assert repr(same.columns) == "LogColumns: user 'user', item 'item', rating 'rating'"


@pytest.mark.parametrize("name", ["count", "qty", "Quantity", "plays", "play_count", "weight"])
def test_counts_are_weights(name):
    log = csrr.read({"user": [1, 1], "item": [1, 2], name: [5, 0]})
    assert (log.columns.weight, log.weights.tolist()) == (name, [5])


@pytest.mark.parametrize("name", ["Hours", "hours_played", "watch-time", "Duration", "total amount"])
def test_other_amounts_are_named_and_used_where_that_is_asked_for(name):
    table = {"user": [1, 1], "item": [1, 2], name: [5.5, 0.0]}
    log = csrr.read(table)
    assert (log.weights, log.columns.left_alone) == (None, (name,))
    assert f"not used: '{name}' (weight='{name}' uses it as the weight)" in repr(log)
    assert csrr.read(table, weight=name).weights.tolist() == [5.5]


def test_names_that_say_nothing():
    assert [find_role(name) for name in ("genre", "paid", "user_agent", "price")] == [None] * 4
    assert not is_amount("genre")


def test_what_columns_were_taken_for_is_kept_and_no_warning_is_given():
    frame = pd.DataFrame({"user_id": [1, 2], "movieId": [1, 2], "ts": [1, 2], "genre": ["a", "b"]})
    log = csrr.read(frame)
    assert repr(log.columns) == "LogColumns: user 'user_id', item 'movieId', time 'ts'; not used: 'genre'"
    train, test = csrr.split(log, 0.5)
    assert train.columns == test.columns == log.columns
    assert csrr.read(frame.drop(columns="genre")) == log
    assert csrr.Log.from_matrix(log.to_csr()).columns is None
