"""What items are like: reading and encoding."""

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import csrr
from csrr.data.features import FeatureSpace, insert_rows

TAGS = {1: ["red", "big"], 2: ["red"], 3: ["big", "odd"], 4: []}


def encode(source, **options):
    table = csrr.read_features(source, **options)
    return FeatureSpace.learn(table), FeatureSpace.learn(table).encode(table)


def test_long_form_lists_json_and_categories_are_the_same(tmp_path):
    pairs = [(item, tag) for item, tags in TAGS.items() for tag in tags]
    path = tmp_path / "tags.json"
    path.write_text(json.dumps(TAGS))
    whole = csrr.read_features(TAGS)
    long = csrr.read_features({"item": [i for i, _ in pairs], "tag": [t for _, t in pairs]})
    joined = csrr.read_features({"item": list(TAGS), "tag": ["|".join(tags) or None for tags in TAGS.values()]})
    from_file = csrr.read_features(path)
    assert long.ids.ids.tolist() == [1, 2, 3]
    for table in (long, joined, from_file):
        (column,) = table.columns.values()
        expected = whole.columns["attribute"].values
        assert column.values.names.tolist() == expected.names.tolist()
        np.testing.assert_array_equal(column.values.members.toarray(), expected.members.toarray()[: len(table)])


def test_rows_have_unit_length_and_rare_values_count_more():
    space, encoded = encode({i: ["red"] * (i < 9) + ["odd"] * (i in (1, 2)) for i in range(12)})
    assert space.texts.tolist() == ["odd", "red"]
    lengths = np.linalg.norm(encoded.words.toarray(), axis=1)
    np.testing.assert_allclose(lengths[:9], 1, rtol=1e-6)
    assert encoded.words[1, 0] > encoded.words[1, 1] > 0


def test_what_says_nothing_is_left_out_and_told():
    space, _ = encode(
        {
            "item": range(6),
            "uid": list("abcdef"),
            "shop": ["one"] * 6,
            "genre": ["SF", "SF", "Horror", "Horror", "Odd", None],
            "price": [2.0] * 6,
        }
    )
    assert space.texts.tolist() == ["Horror", "SF"]
    assert space.numbers == ()
    notes = "\n".join(space.notes)
    for part in (
        "uid: 6 of 6 values are of one row only",
        "a column of ids",
        "shop: 1 of 1 values are of all rows",
        "price: constant",
    ):
        assert part in notes


def test_numbers_are_standardized_and_missing_ones_are_average():
    space, encoded = encode({"item": range(5), "price": [1.0, 2.0, 3.0, None, 1e9]})
    assert space.numbers == ("price",)
    assert encoded.dense[3, 0] == 0
    assert abs(encoded.dense).max() <= 1.5


def test_missing_numbers_of_a_file_are_missing(tmp_path):
    (tmp_path / "items.csv").write_text("item,price,country\na,1.5,NA\nb,nan,NA\nc,2,DE\n")
    table = csrr.read_features(tmp_path / "items.csv")
    assert table.columns["price"].kind == "number"
    assert table.columns["country"].values.names.tolist() == ["DE", "NA"]


def test_texts_are_split_into_words():
    space, encoded = encode({"item": [1, 2, 3], "title": ["The Red Planet", "Red dogs of war", "The dogs"]})
    assert space.texts.tolist() == ["dogs", "red", "the"]
    assert (encoded.words @ encoded.words.T).toarray()[0, 1] > 0


def test_vectors_come_from_arrays_and_lists():
    vectors = np.array([[3.0, 4.0], [0.0, 2.0]])
    _, a = encode(vectors, ids=["b", "a"])
    np.testing.assert_allclose(a.dense, [[0, 1], [0.6, 0.8]], rtol=1e-6)
    arrow = pa.table({"item": ["b", "a"], "vector": pa.array(vectors.tolist(), pa.list_(pa.float32(), 2))})
    _, b = encode(arrow)
    assert np.array_equal(a.dense, b.dense)


def test_a_sparse_matrix_has_names():
    matrix = sparse.csr_array(np.array([[1, 0, 2], [1, 3, 0], [0, 1, 0]]))
    space, _ = encode(matrix, ids=[5, 4, 3], names=["x", "y", "z"])
    assert [space.name(i) for i in range(2)] == ["feature x", "feature y"]


def test_new_rows_are_encoded_alike_and_unknown_values_count_nothing():
    space, encoded = encode(TAGS)
    again = space.encode(csrr.read_features({9: ["red", "never seen"]}))
    np.testing.assert_allclose(again.words.toarray(), encoded.words[[1]].toarray())


def test_many_words_are_cut_to_those_of_most_rows(monkeypatch):
    monkeypatch.setattr("csrr.data.features.MOST_FEATURES", 3)
    space, _ = encode({i: [f"a{i // 2}", f"b{i // 5}"] for i in range(20)})
    assert set(space.texts) <= {"b0", "b1", "b2", "b3"}
    assert "of 14 values and words are used" in space.notes[-1]


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ({"item": [1, 1], "a": ["x", "y"], "b": ["z", "z"]}, {}, "is there twice"),
        ({"item": [1, 2], "uid": ["x", "y"]}, {}, "two rows have in common"),
        ({"item": [1, 2], "v": [[1.0, 2.0], [1.0]]}, {}, "row 2: a vector of 1 numbers"),
        ({"item": [1, 2], "v": [[1.0, None], [1.0, 2.0]]}, {}, "missing or infinite"),
        ({"item": [1, 2, 3], "p": [1.0, np.inf, 2.0]}, {}, "infinite"),
        (np.array([[1, np.nan]]), {}, "row 0"),
        (np.zeros((3, 2)), {}, "only zeros"),
        ({"item": [1, 2, 3], "p": [1.0, 1e300, 2.0]}, {}, "more than 1e"),
        ({"item": [], "p": []}, {}, "no rows"),
        (np.ones((2, 2)), {"ids": [1]}, "1 ids for 2 rows"),
        (sparse.csr_array(np.array([[1.0, -1.0]])), {}, "below 0"),
        (sparse.eye_array(2), {"names": ["a"]}, "2 columns"),
        ({"genre": ["a", "b"], "price": [1.0, 2.0]}, {"id": "sku"}, "sku"),
        (7, {}, "cannot use a int"),
    ],
)
def test_bad_tables_say_what_to_do(source, options, says):
    with pytest.raises(csrr.DataError, match=says):
        encode(source, **options)


@pytest.mark.parametrize("few", [0, 100])
def test_rows_are_inserted_as_numpy_does(few, monkeypatch):
    monkeypatch.setattr("csrr.data.features.FEW_PLACES", few)
    array, places = np.arange(12.0).reshape(6, 2), np.array([0, 2, 2, 6])
    new = -np.arange(8.0).reshape(4, 2)
    assert np.array_equal(insert_rows(array, places, new), np.insert(array, places, new, axis=0))
    assert np.array_equal(insert_rows(array[:0], places[:1], 3), np.full((1, 2), 3.0))
    assert np.array_equal(insert_rows(array, places[:0], 3), array)
