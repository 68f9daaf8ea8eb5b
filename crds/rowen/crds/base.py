"""What every API model shares: camelCase on the wire, no unknown fields, frozen values."""

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A value of the API. Unknown fields are refused, so that a misspelt field is never lost."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """The value as Kubernetes stores it: camelCase keys, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def from_wire(cls, value: dict[str, Any]) -> Self:
        """Parses what Kubernetes stores. Raises `pydantic.ValidationError` that names the field."""
        return cls.model_validate(value)


class ReadModel(ApiModel):
    """A value that Rowen reads but did not necessarily write: newer, unknown fields are passed over."""

    model_config = ConfigDict(extra="ignore")


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL validations `(rule, message)` as a schema extension; the API server enforces them."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def exactly_one(fields: Sequence[str]) -> tuple[str, str]:
    """A CEL rule: exactly one of the named fields is set."""
    present = ", ".join(f"has(self.{field})" for field in fields)
    return f"[{present}].exists_one(set, set)", f"exactly one of {', '.join(fields)} must be set"


def memory_limit_rule() -> tuple[str, str]:
    """A CEL rule: `memoryLimit` is not below `memory`."""
    return (
        "!has(self.memoryLimit) || quantity(self.memoryLimit).compareTo(quantity(self.memory)) >= 0",
        "memoryLimit must not be below memory",
    )


QUANTITY_PATTERN = r"^[1-9][0-9]*(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
Quantity = Annotated[
    str,
    Field(pattern=QUANTITY_PATTERN, max_length=20, examples=["4Gi"]),
]
"""A Kubernetes quantity of bytes, above zero."""

DurationString = Annotated[
    str,
    Field(pattern=r"^[0-9]+(\.[0-9]+)?(us|ms|s|m|h)$", max_length=20, examples=["500ms"]),
]
"""A duration: a number and one unit (us, ms, s, m, h)."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
Name = Annotated[str, Field(pattern=NAME_PATTERN, min_length=1, max_length=253)]
"""A Kubernetes object name (RFC 1123 subdomain)."""

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)]
"""An RFC 3339 time in UTC."""

_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNIT_BYTES = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def duration_seconds(text: str) -> float:
    """Seconds of a `DurationString`. Raises `ValueError` for any other text."""
    for unit in ("us", "ms", "s", "m", "h"):
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * _UNIT_SECONDS[unit]
    raise ValueError(f"{text!r} is no duration: expected a number and one of us, ms, s, m, h")


def quantity_bytes(text: str) -> int:
    """Bytes of a `Quantity`. Raises `ValueError` for any other text."""
    number = text.rstrip("KMGTik")
    unit = text[len(number) :]
    if unit not in _UNIT_BYTES or not number.replace(".", "", 1).isdigit():
        raise ValueError(f"{text!r} is no quantity of bytes: expected e.g. 512Mi or 4Gi")
    return round(float(number) * _UNIT_BYTES[unit])


def quantity_text(number_bytes: int) -> str:
    """Bytes as a quantity for people, in the largest binary unit that it fills, with up to three decimals.

    Rounded: not for what is computed with. Amounts that differ by a thousandth look different.
    """
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if number_bytes >= _UNIT_BYTES[unit]:
            return f"{number_bytes / _UNIT_BYTES[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return str(number_bytes)


_STORED = re.compile(
    r"\+?(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:([eE][+-]?\d{1,2})|(n|u|m|k|[KMGTPE]i|[MGTPE]))?", re.ASCII
)
_STORED_UNITS = {
    **{unit: Decimal(number) for unit, number in _UNIT_BYTES.items()},
    "P": Decimal(10**15), "E": Decimal(10**18), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
}  # fmt: skip
_MOST_STORED = 2**63 - 1


def stored_quantity(text: str) -> Decimal:
    """The value of any quantity that Kubernetes takes, in every form it stores it in.

    Raises `ValueError` for any other text, and for one below zero.
    """
    match = _STORED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity of bytes")
    number, exponent, unit = match.groups()
    return Decimal(number + (exponent or "")) * _STORED_UNITS[unit or ""]


def stored_quantity_bytes(text: str) -> int:
    """Bytes of a stored quantity, rounded up as Kubernetes does. Raises `ValueError` as `stored_quantity`."""
    return min(_MOST_STORED, int(stored_quantity(text).to_integral_value(ROUND_CEILING)))
