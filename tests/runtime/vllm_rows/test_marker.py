"""How a batch row is told from an online request."""

from rowen.runtime.vllm.rows.marker import ID_HEADER, is_row, is_sent_as_row, row_id


def test_ids_as_vllm_makes_them_are_told() -> None:
    sent = row_id()
    assert is_row(f"chatcmpl-{sent}-0a1b2c3d")
    assert is_row(f"1_cmpl-{sent}-0-0a1b2c3d")
    assert not is_row("chatcmpl-7f3c-0a1b2c3d")


def test_no_id_comes_twice() -> None:
    assert row_id() != row_id()


def test_the_header_tells_it() -> None:
    assert is_sent_as_row([(b"host", b"a"), (ID_HEADER.lower().encode(), row_id().encode())])
    assert not is_sent_as_row([(ID_HEADER.lower().encode(), b"my-" + row_id().encode())])
    assert not is_sent_as_row([(b"x-other", row_id().encode())])
    assert not is_sent_as_row([])
