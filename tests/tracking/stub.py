"""A W&B server on 127.0.0.1 that keeps what it receives. It answers only what the client asks."""

import json
import threading
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HISTORY, SUMMARY = "wandb-history.jsonl", "wandb-summary.json"


@dataclass
class Sent:
    """What arrived of one run."""

    about: dict[str, Any] = field(default_factory=dict)  # project, group, job type, tags, name, config
    lines: dict[str, list[str]] = field(default_factory=dict)  # of its files, by name
    exit_code: int | None = None

    @property
    def config(self) -> dict[str, Any]:
        config = json.loads(self.about["config"])
        return {key: entry["value"] for key, entry in config.items() if key != "_wandb"}

    @property
    def axes(self) -> dict[str, str | None]:
        """The metrics that have an axis, and their axis."""
        defined = json.loads(self.about["config"])["_wandb"]["value"]["m"]
        names = [metric.get("1") or metric["2"] for metric in defined]
        return {
            name: names[metric["5"] - 1] for name, metric in zip(names, defined, strict=True) if "5" in metric
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.get(HISTORY, [])]

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads(self.lines[SUMMARY][-1])


class Stub:
    """The server, while the `with` block lasts. Runs are kept by project and id, the rows of each by number.

    Any `status` but 200 is a refusal of everything; before and after the block nothing listens.
    """

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.runs: dict[tuple[str, str], Sent] = {}
        self.keys: set[str] = set()  # with which it was asked
        self.files: dict[str, bytes] = {}  # of runs and artifacts, by their names
        self.artifacts: list[dict[str, Any]] = []  # what was said of each
        self.reports: list[dict[str, Any]] = []  # the same
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stub.keys.add(
                    b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                )
                answer = stub.answer(self.path, body) if stub.status == 200 else {}
                content = json.dumps(answer).encode()
                self.send_response(stub.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_PUT = do_POST  # noqa: N815 - files are put

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that closes the connection is no error."""

        self._server = Server(("127.0.0.1", 0), Handler)
        # Listens from here on; nobody is answered before the block begins.
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Stub":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        if path == "/graphql":
            question = json.loads(body)
            return {"data": self._graphql(question["query"], question.get("variables") or {})}
        if path.endswith("/file_stream"):
            project, run = path.split("/")[-3:-1]
            self._receive(self.runs[project, run], json.loads(body or b"{}"))
            return {"exitcode": None, "limits": {}}
        self.files[path.removeprefix("/files/")] = body
        return {}

    def _graphql(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            sent = self.runs.setdefault((given["project"], given["name"]), Sent())
            sent.about |= {key: value for key, value in given.items() if value is not None}
            project = {"name": given["project"], "entity": {"name": "local"}}
            bucket = {"id": "1", "name": given["name"], "displayName": given["name"], "project": project}
            return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": 0}, "inserted": True}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.url}/files/{name}"} for name in given["files"]]
            return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
        if "viewer" in query:
            return {"viewer": {"id": "1", "entity": "local", "username": "local", "flags": "{}"}}
        return self._of_artifacts(query, given) or self._of_reports(query, given)

    def _of_artifacts(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "createArtifactManifest" in query:
            file = {"id": "1", "uploadUrl": f"{self.url}/files/manifest/{given['artifactID']}"}
            return {"createArtifactManifest": {"artifactManifest": {"id": "1", "file": file}}}
        if "createArtifactFiles" in query:
            names = [file["name"] for file in given["input"]["artifactFiles"]]
            nodes = [
                {"name": name, "uploadUrl": f"{self.url}/files/artifact/{name}", "artifact": {"id": "1"}}
                for name in names
            ]
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        if "commitArtifact" in query:
            return {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": "1"}}}
        if "createArtifact" in query:
            self.artifacts.append(given["input"])
            name = given["input"]["artifactCollectionName"]
            return {"createArtifact": {"artifact": {"id": name, "state": "PENDING", "artifactSequence": {}}}}
        if "clientIDMapping" in query:
            return {"clientIDMapping": {"serverID": b64encode(b"1").decode()}}
        return {}

    def _of_reports(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "upsertView" in query:
            self.reports.append(given)
            project = {"id": "1", "name": given["projectName"], "entityName": given["entityName"]}
            return {"upsertView": {"view": {**given, "id": "1", "project": project}, "inserted": True}}
        if "internalId" in query:
            return {"project": {"id": "1", "internalId": "1"}}
        if "models(" in query:
            names = dict.fromkeys(project for project, _ in self.runs)
            nodes = [
                {"id": name, "name": name, "entityName": "local", "createdAt": "2026-01-01T00:00:00Z"}
                | {"isBenchmark": False, "user": None, "__typename": "Project"}
                for name in names
            ]
            page = {"hasNextPage": False, "endCursor": None, "__typename": "PageInfo"}
            return {"models": {"pageInfo": page, "edges": [{"node": node} for node in nodes]}}
        return {}

    def _receive(self, sent: Sent, stream: dict[str, Any]) -> None:
        for name, chunk in (stream.get("files") or {}).items():
            lines = sent.lines.setdefault(name, [])
            lines[chunk["offset"] :] = chunk["content"]
        if stream.get("complete"):
            sent.exit_code = stream["exitcode"]
