"""Numbers of a report with as many digits as are of use: most of its bytes were digits."""


def brief(value: float) -> float:
    """Rounded to four significant digits."""
    return float(f"{value:.4g}")
