"""The OpenAPI description and the answers agree, whatever is asked: no 500."""

import threading

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from csrr.serve.app import make_app

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
)


@pytest.fixture(scope="module")
def url(model_file, tmp_path_factory):
    """Return the address of a service in this process."""
    app = make_app(model_file, state=tmp_path_factory.mktemp("state"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_every_answer_is_as_described(url):
    description = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    # What the page asks starts processes that take a while.
    operations = [each.ok() for each in description.exclude(path_regex="^/v1/page").get_all_operations()]
    assert len(operations) >= 12
    for operation in operations:

        @given(operation.as_strategy())
        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @seed(0)
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()
