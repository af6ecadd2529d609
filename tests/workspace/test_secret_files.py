from __future__ import annotations

import pytest

from chimera.workspace.secret_files import is_secret_file


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            ".env.local",
            ".env.production",
            "deploy/.ENV",
            "prod.env",
            ".envrc",
            "server.pem",
            "tls/Server.KEY",
        ),
        *("id_rsa", "id_ed25519", ".netrc", "_netrc", "credentials", "credentials.json", ".git-credentials"),
        *(".pgpass", ".aws/config", ".ssh/config", "service-account-prod.json", "secrets.yaml"),
    ],
)
def test_a_file_that_holds_secrets_is_known_by_its_name(path: str) -> None:
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env.example",
            ".env.sample",
            ".env.template",
            "env.py",
            "environment",
            "id_rsa.pub",
            "id_generator.py",
        ),
        *(
            "credentials.py",
            "src/credentials/__init__.py",
            "pem.py",
            "key",
            "keys.json",
            "secrets.py",
            "a.env.example",
        ),
        *(".", "", "README.md", "secret_files.py", "@run/outputs/0001.txt", "credentials.example.json"),
    ],
)
def test_files_with_similar_names_are_ordinary(path: str) -> None:
    assert not is_secret_file(path)
