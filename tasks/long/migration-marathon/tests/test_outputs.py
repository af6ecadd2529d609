"""Hidden tests of migration-marathon."""

import json
import os
import unittest
from pathlib import Path

APP = Path(os.environ["APP_DIR"])
EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))


def text(path: str) -> str:
    return (APP / path).read_bytes().decode("utf-8")


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
    def test_phase_1(self) -> None:
        self.check_phase(1)

    def test_phase_2(self) -> None:
        self.check_phase(2)

    def test_phase_3(self) -> None:
        self.check_phase(3)

    def test_phase_4(self) -> None:
        self.check_phase(4)

    def test_phase_5(self) -> None:
        self.check_phase(5)

    def test_the_manifest_is_exact(self) -> None:
        self.assertEqual(text("manifest.txt"), EXPECTED["manifest"])
        type(self).passed += ("manifest",)

    passed: tuple[str, ...] = ()

    def check_phase(self, phase: int) -> None:
        import hashlib

        for name, digest in EXPECTED["phases"][str(phase)].items():
            self.assertEqual(hashlib.sha256((APP / "modules" / name).read_bytes()).hexdigest(), digest)
        type(self).passed += (f"phase_{phase}",)

    @classmethod
    def tearDownClass(cls) -> None:
        # What part of the work is done, beside whether all of it is.
        names = [*(f"phase_{n}" for n in range(1, 6)), "manifest"]
        parts = {name: float(name in cls.passed) for name in names}
        logs = os.environ.get("LOGS_DIR")
        if logs:
            reward = {"reward": round(sum(parts.values()) / len(parts), 4), **parts}
            (Path(logs) / "verifier" / "reward.json").write_text(json.dumps(reward), encoding="utf-8")


if __name__ == "__main__":
    unittest.main()
