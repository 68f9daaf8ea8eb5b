"""A real S3 server: versitygw over a folder of its own, on this machine, with credentials of its own."""

import contextlib
import functools
import os
import secrets
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs

from rowen.cluster.bare.server import BINARIES, free_port

REGION = "us-east-1"
_START_SECONDS = 30.0


class S3Server:
    """A running server. It may be killed and started again at the same address over the same objects."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        """Starts it at an address of this machine."""
        self._folder = folder
        self._host = host
        self.port = free_port()
        self.endpoint = f"http://{host}:{self.port}"
        self.access_key = secrets.token_hex(8)
        self.secret_key = secrets.token_hex(16)
        (folder / "objects").mkdir()
        self.start()

    def start(self) -> None:
        """Starts it and waits until it listens."""
        environment = {**os.environ, "ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [BINARIES / "versitygw", "--port", f"{self._host}:{self.port}", "posix", self._folder / "objects"],
                env=environment, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self._host, self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"no S3 server: {(self._folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """The server dies; its objects stay."""
        self._process.kill()
        self._process.wait()

    @property
    def keys(self) -> dict[str, str]:
        """The server's credentials, as the keys of a Secret."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
        }

    def secret(self, folder: Path, **other: str) -> Path:
        """Writes the server's credentials as the kubelet mounts a Secret of them; `other` replaces keys."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in {**self.keys, **other}.items():
            (folder / name).write_text(value)
        return folder

    @functools.cache  # noqa: B019 - there is one server
    def filesystem(self) -> s3fs.S3FileSystem:
        """The administrator's view: `bucket/key`."""
        return s3fs.S3FileSystem(
            key=self.access_key,
            secret=self.secret_key,
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": REGION},
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server for the whole test session; tests keep apart by bucket."""
    if not (BINARIES / "versitygw").exists():
        pytest.skip(f"no versitygw in {BINARIES}: `make tools` makes it")
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.kill()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A fresh bucket's name."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    s3_server.filesystem().call_s3("create_bucket", Bucket=name)
    return name
