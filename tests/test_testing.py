import chimera.testing
from chimera.core.model import Model


def test_the_published_fakes_are_exactly_those_of_all() -> None:
    assert chimera.testing.__all__ == sorted(chimera.testing.__all__)
    for name in chimera.testing.__all__:
        assert getattr(chimera.testing, name).__module__ == "chimera.models.scripted"
    public = {name for name in vars(chimera.testing) if not name.startswith("_")}
    assert public == set(chimera.testing.__all__)


def test_the_scripted_model_is_an_ordinary_model() -> None:
    model: Model = chimera.testing.ScriptedModel([chimera.testing.text("x")], window=5)
    assert model.name == "scripted"
