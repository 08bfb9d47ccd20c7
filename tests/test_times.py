"""Times as documents have them."""

from verifierd.times import iso


def test_times_are_as_documents_have_them() -> None:
    """To the millisecond, cut and not rounded up, but where a float lies next to a whole one."""
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1767225599.9999) == "2025-12-31T23:59:59.999Z"
    assert iso(1767225599.9999999) == "2026-01-01T00:00:00.000Z"
