"""Numbers of a report with as many digits as are of use: most of its bytes were digits."""


def significant(value: float, digits: int) -> float:
    """Rounded to so many significant digits."""
    return float(f"{value:.{digits}g}")
