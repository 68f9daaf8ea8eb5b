"""Texts that others wrote, as long as a status or a line may be."""


def clipped(text: str, most: int) -> str:
    """So many characters of it at most; the last one says that there was more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
