"""A batch's place in object storage, and work that fills it."""

import json

from s3 import S3Server

from rowen.crds.job.worker import Location
from rowen.runtime.batch.results import Result, problem_result, response_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.store_output import StoreOutput

ROWS, GROUP = 12, 5
FAILED = (3, 8)


class Place:
    """The objects of one job."""

    def __init__(self, server: S3Server, folder: str) -> None:
        self._server, self.folder = server, folder

    def location(self, name: str) -> Location:
        return Location(where=f"s3://{self.folder}/{name}", secret_name="team-data")

    def open(self, rows: Rows, attempt: int, errors: bool = True) -> StoreOutput:
        return StoreOutput(rows, self.location("out"), self.location("err") if errors else None, attempt)

    def put(self, name: str, data: bytes) -> None:
        self._server.filesystem().pipe_file(f"{self.folder}/{name}", data)

    def remove(self, name: str) -> None:
        self._server.filesystem().rm_file(f"{self.folder}/{name}")

    def names(self) -> list[str]:
        return sorted(path.removeprefix(f"{self.folder}/") for path in self._server.filesystem().find(self.folder))

    def lines(self, name: str) -> list[int]:
        data = self._server.filesystem().cat_file(f"{self.folder}/{name}")
        return [int(json.loads(line)["id"].removeprefix("batch_req_")) for line in data.splitlines()]


def result(rows: Rows, line: int, text: str = "yes") -> Result:
    row = rows.row(line)
    return problem_result(row, text) if line in FAILED else response_result(row, 200, {"text": text})


def answer(output: StoreOutput, rows: Rows, groups: int = ROWS, text: str = "yes") -> None:
    """Answers so many groups of what is not done."""
    left = [line for line in rows if line not in output.done]
    for begin in range(0, min(groups * GROUP, len(left)), GROUP):
        output.append([result(rows, line, text) for line in left[begin : begin + GROUP]])


def run(place: Place, rows: Rows, attempt: int, errors: bool = True, text: str = "yes") -> StoreOutput:
    output = place.open(rows, attempt, errors)
    answer(output, rows, text=text)
    output.close()
    return output


def whole(place: Place) -> None:
    assert place.names() == ["err", "out"]
    assert sorted(place.lines("err")) == list(FAILED)
    assert sorted(place.lines("out")) == [line for line in range(1, ROWS + 1) if line not in FAILED]
