"""Match conditions of extension chains read."""

import pytest

from twin.cluster.gateway.translation.cel import Attribute, Call, CelError, Constant, parse

HEADER = Attribute("headers", "x-tenant")


def test_operators_bind_as_in_cel():
    method = Call("==", (Attribute("method"), Constant("GET")))
    path = Call("startsWith", (Attribute("path"), Constant("/v1")))
    host = Call("!", (Call("==", (Attribute("host"), Constant("h"))),))
    assert parse(
        "request.method == 'GET' || request.path.startsWith(\"/v1\") && !(request.host == 'h')"
    ) == Call("||", (method, Call("&&", (path, host))))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("request.headers['x-tenant'] == 'a'", Call("==", (HEADER, Constant("a")))),
        ("request.headers['host'] == 'a'", Call("==", (Attribute("host"), Constant("a")))),
        (
            "request.headers['x-tenant'].lowerAscii().contains('a')",
            Call("contains", (Call("lowerAscii", (HEADER,)), Constant("a"))),
        ),
        ("int(request.query) >= 3", Call(">=", (Call("int", (Attribute("query"),)), Constant(3)))),
        (
            r'request.path.matches(R"^/v\d+/")',
            Call("matches", (Attribute("path"), Constant(r"^/v\d+/"))),
        ),
        (r"request.scheme == 'it\'s'", Call("==", (Attribute("scheme"), Constant("it's")))),
        ("true", Constant(True)),
    ],
)
def test_the_documented_forms_are_read(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source.address == '1'", "supports attributes of the request, got source.address"),
        ("response.code == 200", "supports attributes of the request, got response.code"),
        (
            "request.backend_service_num_endpoints == 1",
            "supports request.headers[...], request.method, request.host, request.path, "
            "request.query, request.scheme, got request.backend_service_num_endpoints",
        ),
        (
            "request.path.size() > 1",
            "supports startsWith, endsWith, contains, matches, lowerAscii, upperAscii, int, "
            "got size",
        ),
        ("request.headers['X-Tenant'] == 'a'", "must name a header in lower case, got 'X-Tenant'"),
        ("request.path", "a condition must be a bool, got a string"),
        ("request.path == 1", "the right side of == must be a string, got a int"),
        ("request.path && true", "each side of && must be a bool, got a string"),
        ("request.path.matches('(')", "matches() needs a regular expression, got '('"),
        ("request.path.matches('(?=a)')", "matches() needs a regular expression, got '(?=a)'"),
        ("request.path == 'a' request.path", "cannot be read from 'request' on"),
        ("request.path == 'a", 'cannot be read from "\'a" on'),
        ("request.path ==", "ends too early"),
        ("(" * 40 + "true" + ")" * 40, "must be nested at most 32 deep"),
        ("!" * 500 + "true", "must be nested at most 32 deep"),
        ("request.path == '" + "a" * 512 + "'", "must have at most 512 characters, got 530"),
    ],
)
def test_what_is_not_supported_is_named(text, message):
    with pytest.raises(CelError) as error:
        parse(text)
    assert str(error.value).startswith(message)
