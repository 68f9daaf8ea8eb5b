"""A bucket on an S3 server of this machine that pods reach."""

from pathlib import Path
from typing import Any

from s3 import S3Server

SECRET = "storage"


class Bucket:
    """A bucket of its own, and how jobs and tests name, write and read what is in it."""

    def __init__(self, server: S3Server, name: str) -> None:
        """Makes it."""
        self.server = server
        self._name = name
        self._files = server.filesystem()
        self._files.call_s3("create_bucket", Bucket=name)

    def uri(self, path: str) -> str:
        """Address of an object or a folder of them."""
        return f"s3://{self._name}/{path}"

    def place(self, path: str) -> dict[str, str]:
        """The same as a job has it, with the Secret `SECRET`."""
        return {"uri": self.uri(path), "secretName": SECRET}

    def secret(self, name: str, namespace: str) -> dict[str, Any]:
        """A Secret with the server's credentials."""
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": self.server.keys}

    def upload(self, folder: Path, path: str) -> None:
        """Copies the files of a folder there."""
        for file in folder.iterdir():
            self._files.pipe_file(f"{self._name}/{path}/{file.name}", file.read_bytes())

    def write(self, path: str, text: str) -> None:
        """Makes an object."""
        self._files.pipe_file(f"{self._name}/{path}", text.encode())

    def read(self, path: str) -> bytes:
        """The content of an object."""
        return bytes(self._files.cat_file(f"{self._name}/{path}"))

    def names(self, path: str) -> list[str]:
        """Names of the objects in a folder; none where there is no folder."""
        found = self._files.find(f"{self._name}/{path}")
        return [name.rpartition("/")[2] for name in found]
