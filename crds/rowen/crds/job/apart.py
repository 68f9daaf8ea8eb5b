"""CEL rules: what a job writes is not what it reads."""


def apart(written: str, read: str) -> tuple[str, str]:
    """A CEL rule: two fields name different places. `a//b`, `./a/b` and `a/b/` are one path."""
    claims = f"has(self.{written}.claimName) && has(self.{read}.claimName) && has(self.{read}.path)"
    same_claim = f"self.{written}.claimName == self.{read}.claimName"
    same_path = f"{_parts(written, 'path')} == {_parts(read, 'path')}"
    uris = f"has(self.{written}.uri) && has(self.{read}.uri)"
    same_uri = f"{_parts(written, 'uri')} == {_parts(read, 'uri')}"
    rule = f"!({claims} && {same_claim} && {same_path}) && !({uris} && {same_uri})"
    return _where_present(written, read, rule), f"{written} must not be the same place as {read}"


def _parts(field: str, kind: str) -> str:
    return f"self.{field}.{kind}.split('/').filter(part, part != '' && part != '.')"


def _where_present(written: str, read: str, rule: str) -> str:
    return f"!has(self.{written}) || !has(self.{read}) || ({rule})"
