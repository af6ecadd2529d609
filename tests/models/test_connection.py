"""The connection on real sockets: kept, found closed, behind a proxy, silent."""

import base64
import http.client
import os
import resource
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.errors import ModelError
from chimera.models.connection import Connection, decoded, pieces_of, proxy_for, tls_context
from chimera.models.direct_model import DirectModel
from tests.provider import LoopbackProvider, say
from tests.wire import HELLO

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def server(*exchanges: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats each connection with the next function and closes it; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def serve() -> None:
            for exchange in exchanges:
                accepted, _ = listening.accept()
                with accepted:
                    exchange(accepted)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        thread.join(30)
        assert not thread.is_alive()


def read_request(accepted: socket.socket) -> bytes:
    """A request with its body, or nothing where the client closed."""
    got = b""
    while b"\r\n\r\n" not in got:
        if not (piece := accepted.recv(65_536)):
            return got
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    size = int(next(line for line in head.lower().split(b"\r\n") if b"content-length" in line).split(b":")[1])
    while len(body) < size:
        body += accepted.recv(65_536)
    return head


def answer_once(accepted: socket.socket) -> None:
    read_request(accepted)
    accepted.sendall(ANSWER)


def exchange(connection: Connection, body: bytes = b"{}") -> bytes:
    response = connection.post(body, {})
    content = b"".join(pieces_of(response))
    connection.release(response)
    return content


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again() -> None:
    with server(answer_once, answer_once, answer_once) as url:
        connection = Connection(url)
        assert [exchange(connection) for _ in range(3)] == [b"ok"] * 3
        connection.close()


def test_a_connection_that_is_closed_under_a_request_is_opened_once_more_and_not_for_ever() -> None:
    def answer_and_drop(accepted: socket.socket) -> None:
        answer_once(accepted)
        read_request(accepted)

    with server(answer_and_drop, answer_once) as url:
        connection = Connection(url)
        assert [exchange(connection), exchange(connection)] == [b"ok", b"ok"]
        connection.close()
    with server(answer_and_drop, read_request) as url:  # type: ignore[arg-type]
        connection = Connection(url)
        assert exchange(connection) == b"ok"
        with pytest.raises(http.client.RemoteDisconnected):
            exchange(connection)


def test_what_waits_on_an_idle_connection_is_no_answer_to_the_next_request() -> None:
    idle, ended = threading.Event(), threading.Event()

    def answer_and_give_up(accepted: socket.socket) -> None:
        answer_once(accepted)
        idle.wait(30)
        accepted.sendall(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        ended.set()

    with server(answer_and_give_up, answer_once) as url:
        connection = Connection(url)
        assert exchange(connection) == b"ok"
        idle.set()
        assert ended.wait(30)
        assert exchange(connection) == b"ok"
        connection.close()


def test_a_refusal_that_comes_before_the_request_was_read_is_heard() -> None:
    def refuse(accepted: socket.socket) -> None:
        accepted.recv(100)
        accepted.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    with server(refuse) as url:
        connection = Connection(url)
        response = connection.post(b"x" * 30_000_000, {})
        assert response.status == 413
        connection.release(response)


def test_a_first_connection_that_breaks_is_not_tried_again() -> None:
    with server(read_request) as url, pytest.raises(ConnectionError):  # type: ignore[arg-type]
        exchange(Connection(url))


def test_a_body_that_is_not_read_to_its_end_costs_the_connection() -> None:
    def answer_without_end(accepted: socket.socket) -> None:
        read_request(accepted)
        accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")
        assert accepted.recv(1) == b""

    with server(answer_without_end, answer_once) as url:
        connection = Connection(url)
        response = connection.post(b"{}", {})
        assert next(pieces_of(response)) == b"ok"
        connection.release(response)
        assert exchange(connection) == b"ok"
        connection.close()


def test_silence_ends_with_a_timeout() -> None:
    quiet = threading.Event()

    def say_nothing(accepted: socket.socket) -> None:
        read_request(accepted)
        quiet.wait(30)

    with server(say_nothing) as url:
        with pytest.raises(TimeoutError):
            exchange(Connection(url, read_timeout_s=0.05))
        quiet.set()


def test_this_machine_is_never_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    for url in ("http://127.0.0.1:8080/v1", "http://localhost:1/v1", "http://[::1]:8/v1"):
        assert proxy_for(url) is None
    assert proxy_for("https://model.example/v1") == "http://proxy.example:3128"


def test_the_proxy_of_the_scheme_counts_and_exceptions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "secure.example:1")
    monkeypatch.setenv("HTTP_PROXY", "http://plain.example:2")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert proxy_for("https://model.example/v1") == "http://secure.example:1"
    assert proxy_for("http://model.example/v1") == "http://plain.example:2"
    assert proxy_for("https://api.inside.example/v1") is None


def test_a_plain_request_goes_to_the_proxy_with_its_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackProvider([say("through")]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:s%40crt@127.0.0.1:{proxy.port}")
        model = DirectModel("openai/fake", api_base="http://model.example/v1", api_key="k")
        for _ in range(2):
            assert model.complete(HELLO, lambda _: None).message.content == "through"
        model.close()
        assert {seen.path for seen in proxy.seen} == {"http://model.example/v1/chat/completions"}
        headers = proxy.seen[0].headers
        assert (headers["host"], headers["authorization"]) == ("model.example", "Bearer k")
        assert headers["proxy-authorization"] == f"Basic {base64.b64encode(b'me:s@crt').decode()}"
        assert proxy.connections == 1


def test_a_secured_request_asks_the_proxy_for_a_tunnel_and_shows_it_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    def refuse(accepted: socket.socket) -> None:
        asked.append(accepted.recv(65_536))
        accepted.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")

    with server(refuse) as url:
        monkeypatch.setenv("HTTPS_PROXY", url.removesuffix("/v1"))
        model = DirectModel("openai/fake", api_base="https://model.example/v1", api_key="sk-secret")
        with pytest.raises(ModelError, match="407 Proxy Authentication Required"):
            model.complete(HELLO, lambda _: None)
    assert asked[0].startswith(b"CONNECT model.example:443 HTTP/1")
    assert b"sk-secret" not in asked[0]


def test_a_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://u:p@127.0.0.1:1080")
    model = DirectModel("openai/fake", api_base="https://model.example/v1", api_key="k")
    with pytest.raises(ModelError, match=r"socks5://127\.0\.0\.1:1080 cannot be used") as caught:
        model.complete(HELLO, lambda _: None)
    assert not caught.value.retryable


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    key, made = folder / "key.pem", folder / "certificate.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    how = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    try:
        subprocess.run(
            ["openssl", "req", "-x509", *how, *names, "-keyout", str(key), "-out", str(made)],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return key, made


@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_must_prove_itself_to_the_certificates_that_the_user_names(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, *, trusted: bool
) -> None:
    key, made = certificate
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
    else:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made, key)
    seen: list[bytes] = []

    def answer(accepted: socket.socket) -> None:
        try:
            secured = served.wrap_socket(accepted, server_side=True)
        except ssl.SSLError:
            return
        with secured:
            for _ in range(2):
                seen.append(read_request(secured))
                secured.sendall(ANSWER)

    with server(answer) as url:
        connection = Connection(url.replace("http:", "https:"))
        if trusted:
            assert [exchange(connection), exchange(connection)] == [b"ok", b"ok"]
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                exchange(connection)
        connection.close()
    assert len(seen) == (2 if trusted else 0)


def test_without_a_choice_of_the_user_the_usual_authorities_are_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert "SSL_CERT_FILE" not in process_environment()
    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) > 50


def test_work_is_done_while_the_request_is_on_its_way() -> None:
    arrived, done = threading.Event(), threading.Event()

    def exchange(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        arrived.set()
        assert done.wait(30)
        connection.sendall(ANSWER)

    def work() -> None:
        assert arrived.wait(30)  # before the request was sent nothing could arrive
        done.set()

    with server(exchange) as url:
        connection = Connection(url)
        response = connection.post(b"{}", {}, work)
        assert b"".join(pieces_of(response)) == b"ok"
        connection.close()


def test_a_connection_is_kept_however_many_files_are_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("so many files may not be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
    try:
        with LoopbackProvider([say("a")]) as provider:
            model = DirectModel("openai/fake", api_base=provider.url)
            for _ in range(2):
                assert model.complete(HELLO, lambda _: None).message.content == "a"
            model.close()
            assert provider.connections == 1
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_of_certificates_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(place))
        with pytest.raises(ModelError, match=place.name) as caught:
            tls_context()
        assert not caught.value.retryable
        (tmp_path / "empty.pem").write_text("")


@pytest.mark.parametrize(
    "proxy", ["http://u:p@proxy.example:abc", "http://[::1", "http://:8080", "proxy.example:99999"]
)
def test_a_proxy_that_has_no_address_is_told(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ModelError, match="proxy") as caught:
        DirectModel("openai/fake", api_base="https://far.example/v1").complete(HELLO, lambda _: None)
    assert not caught.value.retryable
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "body"), [("br", b"x"), ("gzip", b"no such thing"), ("gzip, gzip", b"x")]
)
def test_what_cannot_be_decoded_is_told(encoding: str, body: bytes) -> None:
    with pytest.raises(http.client.HTTPException, match=r"gzip|br"):
        list(decoded([body], encoding))
