from tests.models.conftest import clicks, log, named

__all__ = ["clicks", "log", "named"]
