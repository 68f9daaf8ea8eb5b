"""Quantities as the API server writes them."""

import pytest

from rowen.crds.base import quantity_bytes, quantity_text, stored_quantity_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("128974848", 128974848),
        ("129e6", 129 * 10**6),
        ("129E6", 129 * 10**6),
        ("1.5e3", 1500),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("9Ei", 2**63 - 1),
        ("128974848000m", 128974848),
        ("1m", 1),
        ("1n", 1),
        ("1e-3", 1),
        ("123Mi", 123 * 2**20),
        ("1.5Gi", 3 * 2**29),
        (".5Ki", 512),
        ("2.k", 2000),
        ("3P", 3 * 10**15),
        ("+2k", 2000),
    ],
)
def test_every_form_is_understood_and_rounded_up(text, expected):
    assert stored_quantity_bytes(text) == expected


@pytest.mark.parametrize("text", ["512Mi", "4Gi", "3k", "7", "1.5G", "2Ti"])
def test_what_the_api_takes_means_the_same(text):
    assert stored_quantity_bytes(text) == quantity_bytes(text)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "++1", "1KiB", "1 Gi", "1e", "1e999999999", "Gi", ".", "1\n", "\u0661"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="no quantity of bytes"):
        stored_quantity_bytes(text)


@pytest.mark.parametrize(
    ("number_bytes", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (2**30 - 2**21, "1022Mi"),
        (3 * 2**29, "1.5Gi"),
        # 3,070 of 1,024 Mi each: a handle less than 3Gi does not look like it.
        (3070 * 2**20, "2.998Gi"),
        (10 * 2**30, "10Gi"),
        (100 * 2**40, "100Ti"),
    ],
)
def test_bytes_for_people(number_bytes, text):
    assert quantity_text(number_bytes) == text
